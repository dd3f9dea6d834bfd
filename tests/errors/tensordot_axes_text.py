import snug.tensor as T

x = T.matrix("x")
T.tensordot(x, x, axes="ij")
