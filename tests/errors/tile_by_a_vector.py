import snug.tensor as T

T.tile(T.dmatrix("x"), T.lvector("reps"))
