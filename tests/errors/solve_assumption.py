import snug.tensor as T

a, b = T.matrix("a"), T.vector("b")
T.slinalg.solve(a, b, assume_a="sym")
