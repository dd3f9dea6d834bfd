import snug.tensor as T

x, y = T.matrix("x"), T.matrix("y")
T.concatenate([x, y], axis=2)
