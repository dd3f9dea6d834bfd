import snug
import snug.tensor as T

x = T.dvector("x")
f = snug.function([x], T.cross(x, x))
f([1.0, 2.0, 3.0, 4.0])
