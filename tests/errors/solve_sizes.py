import numpy as np

import snug
import snug.tensor as T

a, b = T.matrix("a"), T.vector("b")
f = snug.function([a, b], T.slinalg.solve(a, b))
f(np.eye(3, dtype="float32"), np.ones(2, "float32"))
