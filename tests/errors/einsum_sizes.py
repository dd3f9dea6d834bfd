import snug
import snug.tensor as T

x, y = T.dmatrix("x"), T.dmatrix("y")
f = snug.function([x, y], T.einsum("ij,jk->ik", x, y))
f([[1.0, 2.0]], [[1.0]])
