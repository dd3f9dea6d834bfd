import snug.tensor as T

x, y = T.matrix("x"), T.matrix("y")
T.tensordot(x, y, axes=[[0, 1], [0]])
