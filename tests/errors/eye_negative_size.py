import snug
import snug.tensor as T

n = T.lscalar("n")
f = snug.function([n], T.eye(n))
f(-1)
