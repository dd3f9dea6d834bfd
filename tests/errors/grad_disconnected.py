import snug.tensor as T

x, w = T.vector("x"), T.vector("w")
T.grad((x**2).sum(), w)
