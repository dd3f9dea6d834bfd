import numpy as np

import snug
import snug.tensor as T
from snug import nn

x, y = T.fmatrix("x"), T.fmatrix("y")
f = snug.function([x, y], nn.mse(x, y))
f(np.zeros((3, 4), "float32"), np.zeros((3, 5), "float32"))
