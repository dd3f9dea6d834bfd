import numpy as np

import snug
import snug.tensor as T

x = T.matrix("x")
f = snug.function([x], T.specify_shape(x, (2, None)))
f(np.zeros((3, 3), "float32"))
