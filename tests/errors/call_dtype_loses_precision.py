import numpy as np

import snug
import snug.tensor as T

x = T.fvector("x")
f = snug.function([x], x * 2)
f(np.array([0.1, 0.2]))
