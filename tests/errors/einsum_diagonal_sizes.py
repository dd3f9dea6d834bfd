import snug
import snug.tensor as T

x = T.dmatrix("x")
f = snug.function([x], T.einsum("ii->i", x))
f([[1.0, 2.0]])
