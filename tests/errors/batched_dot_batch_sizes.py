import numpy as np

import snug
import snug.tensor as T

x, y = T.tensor3("x"), T.tensor3("y")
f = snug.function([x, y], T.batched_dot(x, y))
f(np.zeros((2, 3, 4), "float32"), np.zeros((3, 4, 5), "float32"))
