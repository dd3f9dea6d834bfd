import snug.tensor as T

a = T.vector("a")
T.switch(a)
