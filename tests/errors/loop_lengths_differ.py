import numpy as np

import snug
import snug.tensor as T

x, y = T.vector("x"), T.vector("y")
_, (z,) = snug.loop(lambda i, e, s: ([], [e[0] * e[1]]), [x, y])
f = snug.function([x, y], z)
f(np.zeros(3, "float32"), np.zeros(4, "float32"))
