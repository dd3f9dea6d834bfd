import snug
import snug.tensor as T

x = T.fvector("x")
snug.clone(T.exp(x), {x: T.dvector("y")})
