import snug.tensor as T

x = T.vector("x")
T.grad(x.sum(), x, disconnected_inputs="zero")
