import numpy as np

import snug
import snug.tensor as T

a = T.dmatrix("a")
total = snug.shared(np.zeros((2, 2)), "total")
f = snug.function([a], T.slinalg.cholesky(a), updates=[(total, total + a)])
f(np.array([[1.0, 2.0], [2.0, 1.0]]))
