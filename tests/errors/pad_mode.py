import snug.tensor as T

T.pad(T.dmatrix("x"), 1, mode="mirror")
