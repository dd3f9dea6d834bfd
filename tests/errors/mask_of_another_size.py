import numpy as np

import snug
import snug.tensor as T

x, m = T.vector("x"), T.TensorType("bool", (False,))("m")
f = snug.function([x, m], x[m])
f(np.zeros(4, "float32"), np.ones(3, bool))
