import numpy as np

import snug
import snug.tensor as T

x = T.matrix("x")
total = snug.shared(np.float32(0), "total")
y = T.sort(T.sort(T.exp(x), axis=1) * x, axis=0)
f = snug.function([x], y.sum(), updates=[(total, total + 1)], memory="1MiB", threads=1)
f(np.zeros((1000, 1000), "float32"))
