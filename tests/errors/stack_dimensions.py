import snug.tensor as T

x, y = T.vector("x"), T.matrix("y")
T.stack([x, y])
