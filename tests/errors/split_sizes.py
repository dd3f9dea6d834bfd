import snug
import snug.tensor as T

x, n = T.dvector("x"), T.lscalar("n")
f = snug.function([x, n], T.split(x, [n, 2], 2))
f([1.0, 2.0, 3.0, 4.0], 3)
