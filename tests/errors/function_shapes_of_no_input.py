import snug
import snug.tensor as T

x, y = T.vector("x"), T.vector("y")
snug.function([x], x * 2, shapes={y: (3,)})
