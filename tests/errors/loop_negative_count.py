import snug
import snug.tensor as T

n, x = T.lscalar("n"), T.scalar("x")
states, _ = snug.loop(lambda i, e, s: ([s[0] * 2], []), states=[x], n_steps=n)
f = snug.function([n, x], states)
f(-1, 1.0)
