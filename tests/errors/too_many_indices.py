import snug.tensor as T

x = T.matrix("x")
x[0, 1, 2]
