import snug
import snug.tensor as T

x = T.scalar("x")
snug.function([snug.In(x, update=x + 1)], x)
