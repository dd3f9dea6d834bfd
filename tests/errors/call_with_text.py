import snug
import snug.tensor as T

x = T.vector("x")
f = snug.function([x], x * 2)
f("1, 2")
