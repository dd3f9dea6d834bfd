import numpy as np

import snug
import snug.tensor as T

x, i, y = T.matrix("x"), T.lvector("i"), T.matrix("y")
f = snug.function([x, i, y], T.inc_subtensor(x[i], y))
f(np.zeros((4, 3), "float32"), np.arange(2), np.zeros((2, 4), "float32"))
