import snug.tensor as T

x = T.vector("x")
x[0] = 1
