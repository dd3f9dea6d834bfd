import snug.tensor as T

T.sort(T.dvector("x"), axis=1)
