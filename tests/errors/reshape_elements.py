import numpy as np

import snug
import snug.tensor as T

x = T.matrix("x")
f = snug.function([x], x.reshape((4, 2)))
f(np.zeros((3, 3), "float32"))
