import snug
import snug.tensor as T

x, y = T.matrix("x"), T.matrix("y")
f = snug.function([x, y], T.dot(x, y))
f.memory(x=(64, 784))
