import snug.tensor as T

x, y = T.ivector("x"), T.vector("y")
T.set_subtensor(x[:2], y)
