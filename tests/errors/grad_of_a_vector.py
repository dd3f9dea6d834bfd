import snug.tensor as T

x = T.vector("x")
T.grad(x**2, x)
