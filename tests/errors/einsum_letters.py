import snug.tensor as T

T.einsum("ij,jk->il", T.dmatrix("x"), T.dmatrix("y"))
