import numpy as np

import snug
import snug.tensor as T

x = T.ivector("x")
f = snug.function([x], x * 2)
f(np.array([1.5, 2.5]))
