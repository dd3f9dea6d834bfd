import numpy as np

import snug
import snug.tensor as T

x = T.vector("x")
f = snug.function([x], x.max())
f(np.zeros(0, "float32"))
