import snug.tensor as T

z = T.cmatrix("z")
z.astype("float32")
