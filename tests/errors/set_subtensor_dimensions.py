import snug.tensor as T

x, y = T.vector("x"), T.matrix("y")
T.set_subtensor(x[:2], y)
