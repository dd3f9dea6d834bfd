import numpy as np

import snug
import snug.tensor as T

x = T.row("x")
f = snug.function([x], x * 2)
f(np.zeros((2, 3), "float32"))
