import snug
import snug.tensor as T

x = T.vector("x")
snug.function([x, 3], x * 2)
