import snug
import snug.tensor as T

x = T.lvector("x")
f = snug.function([x], T.bincount(x))
f([3, -1, 2])
