import snug.tensor as T

x = T.vector("x")
T.grad(x.sum(), 3)
