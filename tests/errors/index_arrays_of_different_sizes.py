import numpy as np

import snug
import snug.tensor as T

x, i, j = T.matrix("x"), T.lvector("i"), T.lvector("j")
f = snug.function([x, i, j], x[i, j])
f(np.zeros((4, 3), "float32"), np.arange(3), np.arange(2))
