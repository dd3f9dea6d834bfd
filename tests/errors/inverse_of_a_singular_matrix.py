import numpy as np

import snug
import snug.tensor as T

a = T.dmatrix("a")
f = snug.function([a], T.nlinalg.matrix_inverse(a))
f(np.ones((3, 3)))
