import snug
import snug.tensor as T

x = T.bvector("x")
f = snug.function([x], x * 2)
f([100, 200, 300])
