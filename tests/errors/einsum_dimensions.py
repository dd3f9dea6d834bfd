import snug.tensor as T

T.einsum("ijk,jk->i", T.dmatrix("x"), T.dmatrix("y"))
