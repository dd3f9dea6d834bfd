import snug.tensor as T

z = T.zvector("z")
T.grad((z * z).sum(), z)
