import numpy as np

import snug
import snug.tensor as T

x = T.dvector("x")
total = snug.shared(0.0, "total")
checked = T.opt.Assert("x must be short")(x, x.size < 3)
f = snug.function([x], checked, updates=[(total, total + 1)])
f(np.ones(3))
