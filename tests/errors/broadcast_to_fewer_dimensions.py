import snug.tensor as T

x = T.matrix("x")
T.alloc(x, 4)
