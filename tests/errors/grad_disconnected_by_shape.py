import snug.tensor as T

x = T.vector("x")
T.grad(T.ones_like(x).sum(), x)
