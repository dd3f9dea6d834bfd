import snug.tensor as T

x = T.tensor3("x")
x[..., 0, ...]
