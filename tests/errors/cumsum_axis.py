import snug.tensor as T

T.cumsum(T.dvector("x"), axis=2)
