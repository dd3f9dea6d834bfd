import snug.tensor as T

x = T.tensor3("x")
x.transpose(0, 1)
