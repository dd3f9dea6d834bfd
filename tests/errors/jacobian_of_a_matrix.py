import snug.tensor as T

x = T.dmatrix("x")
T.jacobian(T.exp(x), x)
