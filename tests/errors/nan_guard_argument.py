import snug
import snug.tensor as T

x = T.vector("x")
f = snug.function([x], x + 1, mode="NanGuardMode")
f([1, float("inf")])
