import numpy as np

import snug
import snug.tensor as T

x = T.fvector("x")
f = snug.function([snug.In(x, strict=True)], x * 2)
f(np.array([1, 2], "int8"))
