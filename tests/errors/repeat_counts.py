import snug
import snug.tensor as T

x, n = T.dvector("x"), T.lvector("n")
f = snug.function([x, n], T.repeat(x, n))
f([1.0, 2.0], [1, 2, 3])
