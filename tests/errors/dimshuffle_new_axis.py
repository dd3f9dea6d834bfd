import snug.tensor as T

x = T.vector("x")
x.dimshuffle("y", 0)
