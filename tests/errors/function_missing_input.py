import snug
import snug.tensor as T

x, y = T.vector("x"), T.vector("y")
z = x * 2 + y
snug.function([x], z)
