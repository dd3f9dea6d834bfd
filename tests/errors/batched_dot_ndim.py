import snug.tensor as T

x = T.vector("x")
T.batched_dot(x, x)
