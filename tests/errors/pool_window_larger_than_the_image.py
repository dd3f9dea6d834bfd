import numpy as np

import snug
import snug.tensor as T

x = T.ftensor4("x")
f = snug.function([x], T.signal.pool.pool_2d(x, (3, 3), ignore_border=True))
f(np.zeros((2, 3, 2, 8), "float32"))
