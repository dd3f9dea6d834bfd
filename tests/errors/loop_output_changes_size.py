import snug
import snug.tensor as T

x = T.vector("x")
_, (parts,) = snug.loop(lambda i, e, s: ([], [x[: i + 1]]), n_steps=4)
snug.function([x], parts)
