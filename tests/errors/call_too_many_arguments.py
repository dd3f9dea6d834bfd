import snug
import snug.tensor as T

x = T.scalar("x")
f = snug.function([x], x * 2, name="double")
f(1, 2)
