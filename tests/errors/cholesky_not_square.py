import numpy as np

import snug
import snug.tensor as T

a = T.matrix("a")
f = snug.function([a], T.slinalg.cholesky(a))
f(np.zeros((2, 3), "float32"))
