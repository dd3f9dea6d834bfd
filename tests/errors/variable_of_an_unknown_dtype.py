import snug.tensor as T

T.matrix("x", dtype="complex256")
