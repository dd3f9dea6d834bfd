import snug.tensor as T

x, v = T.matrix("x"), T.vector("v")
T.concatenate([x, v], axis=0)
