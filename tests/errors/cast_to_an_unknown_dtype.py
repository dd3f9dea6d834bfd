import snug.tensor as T

x = T.vector("x")
x.astype("float31")
