import snug.tensor as T

x = T.matrix("x")
T.concatenate([x, x], axis="rows")
