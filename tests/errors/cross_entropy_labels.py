import numpy as np

import snug
import snug.tensor as T
from snug import nn

x, y = T.fmatrix("x"), T.ivector("y")
f = snug.function([x, y], nn.cross_entropy(x, y))
f(np.zeros((3, 4), "float32"), np.zeros(5, "int32"))
