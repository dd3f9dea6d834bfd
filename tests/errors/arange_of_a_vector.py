import snug.tensor as T

x = T.lvector("x")
T.arange(x)
