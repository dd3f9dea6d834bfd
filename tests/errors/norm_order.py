import snug.tensor as T

a = T.matrix("a")
T.nlinalg.norm(a, 3)
