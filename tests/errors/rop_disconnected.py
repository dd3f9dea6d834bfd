import snug
import snug.tensor as T

x, y = map(T.dvector, ("x", "y"))
snug.Rop(T.exp(y), x, T.ones_like(x))
