import numpy as np

import snug
import snug.tensor as T

x, bias = T.matrix("x"), T.matrix("bias")
f = snug.function([x, bias], x + bias)
f(np.zeros((5, 3), "float32"), np.zeros((1, 3), "float32"))
