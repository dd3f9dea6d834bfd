import snug
import snug.tensor as T

x = T.vector("x")
y = T.log(x)
f = snug.function([x], y + 1, mode="NanGuardMode")
f([1, -1])
