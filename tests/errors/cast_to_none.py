import snug.tensor as T

x = T.matrix("x")
x.astype(None)
