import snug.tensor as T

x = T.vector("x")
T.nnet.dropout(x, 1.0)
