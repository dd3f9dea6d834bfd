import snug
import snug.tensor as T

x, y = T.scalar("x"), T.scalar("y")
f = snug.function([x, y], x + y)
f(1, x=2)
