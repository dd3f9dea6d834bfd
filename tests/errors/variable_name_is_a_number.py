import snug.tensor as T

T.matrix(5)
