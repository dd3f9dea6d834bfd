import numpy as np

import snug
import snug.tensor as T

x = T.fmatrix("x")
f = snug.function([x], T.view_as_complex(x))
f(np.zeros((4, 3), "float32"))
