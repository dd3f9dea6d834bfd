import snug.tensor as T

x, i = T.vector("x"), T.lvector("i")
x[i:]
