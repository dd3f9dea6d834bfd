import snug.tensor as T

x = T.matrix("x")
x.mean(dtype="int32")
