import snug.tensor as T

a = T.vector("a")
T.exp(a, axis=1)
