import snug
import snug.tensor as T

x = T.vector("x")
(kept,), _ = snug.loop(lambda i, e, s: ([s[0][(s[0] > i).nonzero()]], []), None, [x], 3)
snug.function([x], kept)
