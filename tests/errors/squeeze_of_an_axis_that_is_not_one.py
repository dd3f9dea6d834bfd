import snug.tensor as T

x = T.matrix("x")
T.squeeze(x, axis=0)
