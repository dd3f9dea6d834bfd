import snug.tensor as T

x = T.matrix("x")
T.take(x, [0, 1], axis=2)
