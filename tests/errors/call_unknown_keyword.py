import snug
import snug.tensor as T

rate, x = T.scalar("rate"), T.scalar("x")
f = snug.function([x, rate], x * rate)
f(1, rat=2)
