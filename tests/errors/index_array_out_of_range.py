import numpy as np

import snug
import snug.tensor as T

table = snug.shared(np.zeros((4, 3), "float32"), "table")
word = T.ivector("word")
f = snug.function([word], table[word], updates=[(table, table + 1)])
f(np.array([0, 3, 7], "int32"))
