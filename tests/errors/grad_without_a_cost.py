import snug.tensor as T

x = T.vector("x")
T.grad(None, x)
