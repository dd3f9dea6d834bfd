import snug.tensor as T

x = T.matrix("x")
x.reshape((-1, -1))
