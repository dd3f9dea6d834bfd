import snug
import snug.tensor as T

i, x = T.lvector("i"), T.dmatrix("x")
f = snug.function([i, x], T.choose(i, x))
f([0, -1], [[1.0, 2.0], [3.0, 4.0]])
