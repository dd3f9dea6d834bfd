import snug.tensor as T

x, y = T.vector("x"), T.vector("y")
T.set_subtensor(x, y)
