import snug
import snug.tensor as T

x = T.matrix("x")
snug.function([x], x * 2, shapes={x: (3,)})
