import snug.tensor as T

x, i = T.vector("x"), T.scalar("i")
x[i]
