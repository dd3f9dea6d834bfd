import snug
import snug.tensor as T

x = T.dvector("x")
snug.Rop(T.exp(x), x, T.dmatrix("v"))
