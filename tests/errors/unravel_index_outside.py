import snug
import snug.tensor as T

i = T.lvector("i")
f = snug.function([i], T.unravel_index(i, (3, 4)))
f([11, 12])
