import numpy as np

import snug
import snug.tensor as T

x, y = T.vector("x"), T.vector("y")
f = snug.function([x, y], T.set_subtensor(x[:2], y))
f(np.zeros(5, "float32"), np.zeros(3, "float32"))
