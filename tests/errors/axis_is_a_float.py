import snug.tensor as T

x = T.matrix("x")
x.max(axis=0.5)
