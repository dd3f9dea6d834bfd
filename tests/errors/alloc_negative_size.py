import snug
import snug.tensor as T

n = T.lscalar("n")
f = snug.function([n], T.zeros((n, 2)))
f(-3)
