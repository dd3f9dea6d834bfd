import snug.tensor as T

z = T.zvector("z")
z < 1
