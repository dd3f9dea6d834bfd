import snug.tensor as T

T.repeat(T.dvector("x"), T.dvector("n"))
