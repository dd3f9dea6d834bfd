import snug
import snug.tensor as T

x, y = T.vector("x"), T.matrix("y")
snug.function([y], x * 2, givens=[(x, y)])
