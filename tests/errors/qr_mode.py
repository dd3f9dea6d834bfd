import snug.tensor as T

a = T.matrix("a")
T.nlinalg.qr(a, "raw")
