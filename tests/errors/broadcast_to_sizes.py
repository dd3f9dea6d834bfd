import numpy as np

import snug
import snug.tensor as T

x = T.vector("x")
f = snug.function([x], T.alloc(x, 2, 4))
f(np.zeros(3, "float32"))
