import snug.tensor as T

a = T.matrix("a")
u, s, v = T.nlinalg.svd(a)
T.grad(u.sum(), a)
