import numpy as np

import snug
import snug.tensor as T

x, i = T.matrix("x"), T.lscalar("i")
f = snug.function([x, i], x[i])
f(np.zeros((4, 3), "float32"), 4)
