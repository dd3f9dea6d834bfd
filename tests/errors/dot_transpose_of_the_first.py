import numpy as np

import snug
import snug.tensor as T

x, w = T.matrix("x"), T.matrix("w")
f = snug.function([x, w], T.dot(x, w))
f(np.zeros((5, 3), "float32"), np.zeros((5, 4), "float32"))
