import snug.tensor as T

x = T.matrix("x")
x.flatten(3)
