import numpy as np

import snug
import snug.tensor as T

w = snug.shared(np.zeros((4, 10), "float32"), "w")
h = T.matrix("h")
f = snug.function([h], T.dot(h, w))
f(np.zeros((32, 10), "float32"))
