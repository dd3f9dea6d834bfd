import snug.tensor as T

x, m = T.vector("x"), T.TensorType("bool", (False, False))("m")
x[m]
