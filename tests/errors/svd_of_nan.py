import numpy as np

import snug
import snug.tensor as T

a = T.matrix("a")
f = snug.function([a], T.nlinalg.svd(a, compute_uv=False))
f(np.array([[1, 2], [np.nan, 3]], "float32"))
