import numpy as np

import snug
import snug.tensor as T

x, n = T.matrix("x"), T.lscalar("n")
f = snug.function([x, n], x.reshape((n, -1)))
f(np.zeros((3, 3), "float32"), 2)
