import snug
import snug.tensor as T

n = snug.shared(0, "n")
x = T.scalar("x")
snug.function([x], [], updates=[(n, n + x)])
