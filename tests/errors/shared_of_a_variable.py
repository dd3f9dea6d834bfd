import snug
import snug.tensor as T

x = T.vector("x")
snug.shared(x)
