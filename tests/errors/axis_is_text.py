import snug.tensor as T

x = T.matrix("x")
x.sum(axis="rows")
