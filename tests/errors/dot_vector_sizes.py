import numpy as np

import snug
import snug.tensor as T

x, v = T.matrix("x"), T.vector("v")
f = snug.function([x, v], T.dot(x, v))
f(np.zeros((2, 3), "float32"), np.zeros(4, "float32"))
