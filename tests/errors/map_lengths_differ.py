import numpy as np

import snug
import snug.tensor as T

x, y = T.vector("x"), T.vector("y")
z, _ = snug.map(lambda a, b: a * b, [x, y])
f = snug.function([x, y], z)
f(np.zeros(3, "float32"), np.zeros(4, "float32"))
