import snug.tensor as T

x = T.vector("x")
x.dimshuffle(0, *["x"] * 8)
