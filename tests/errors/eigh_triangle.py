import snug.tensor as T

a = T.matrix("a")
T.nlinalg.eigh(a, UPLO="lower")
