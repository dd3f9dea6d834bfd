import snug
import snug.tensor as T

x = T.vector("x")
snug.function([x], x * 2, name=3)
