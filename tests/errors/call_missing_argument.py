import snug
import snug.tensor as T

x, y = T.scalar("x"), T.scalar("y")
f = snug.function([x, y], x + y, name="total")
f(1)
