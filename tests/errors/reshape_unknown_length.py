import snug.tensor as T

x, shape = T.matrix("x"), T.lvector("shape")
x.reshape(shape)
