import snug.tensor as T

x = T.dmatrix("x")
T.hessian(T.exp(x).sum(), x)
