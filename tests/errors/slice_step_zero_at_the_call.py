import numpy as np

import snug
import snug.tensor as T

x, k = T.vector("x"), T.lscalar("k")
f = snug.function([x, k], x[::k])
f(np.zeros(4, "float32"), 0)
