import snug.tensor as T

a, b = T.TensorType("uint64", ())("a"), T.lscalar("b")
a | b
