import snug.tensor as T

x, n = T.matrix("x"), T.scalar("n")
x.reshape((n, 2))
