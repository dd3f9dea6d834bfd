import snug
import snug.tensor as T

x = T.matrix("x")
f = snug.function([x], x * 2)
f.counter("plan")
