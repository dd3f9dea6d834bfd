import snug.tensor as T

x = T.vector("x")
T.dot(x, None)
