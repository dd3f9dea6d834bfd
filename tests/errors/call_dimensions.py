import numpy as np

import snug
import snug.tensor as T

x = T.matrix("x")
f = snug.function([x], x * 2, name="double")
f(np.zeros(3, "float32"))
