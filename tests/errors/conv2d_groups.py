import numpy as np

import snug
import snug.tensor as T

x, w = T.tensor4("x"), T.tensor4("w")
f = snug.function([x, w], T.nnet.conv2d(x, w, num_groups=2))
f(np.zeros((2, 4, 8, 8), "float32"), np.zeros((3, 2, 3, 3), "float32"))
