import snug
import snug.tensor as T

x = T.iscalar("x")
snug.function([snug.In(x, value=0, update=x * 1.5)], x)
