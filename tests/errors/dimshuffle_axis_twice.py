import snug.tensor as T

x = T.matrix("x")
x.dimshuffle(0, 0)
