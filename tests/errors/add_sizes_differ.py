import numpy as np

import snug
import snug.tensor as T

x, y = T.matrix("x"), T.matrix("y")
f = snug.function([x, y], x + y)
f(np.zeros((2, 3), "float32"), np.zeros((2, 4), "float32"))
