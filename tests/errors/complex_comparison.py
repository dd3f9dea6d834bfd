import snug.tensor as T

z = T.zvector("z")
y = T.switch(z < 1, z, 0)
