import numpy as np

import snug
import snug.tensor as T

x, theta = T.ftensor4("x"), T.ftensor3("theta")
f = snug.function([x, theta], T.nnet.spatial_transformer(x, theta))
f(np.zeros((2, 3, 5, 5), "float32"), np.zeros((2, 3, 2), "float32"))
