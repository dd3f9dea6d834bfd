import numpy as np

import snug
import snug.tensor as T

x = T.matrix("x")
total = snug.shared(np.float32(0), "total")
y = T.dot(T.exp(x), T.exp(x).T)
f = snug.function([x], T.dot(y, y).sum(), updates=[(total, total + 1)], memory="1MiB")
f(np.zeros((1000, 1000), "float32"))
