import snug.tensor as T

x = T.vector("x")
T.switch(True, x, -x)
