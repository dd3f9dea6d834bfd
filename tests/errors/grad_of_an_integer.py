import snug.tensor as T

x = T.ivector("x")
T.grad(x.sum(), x)
