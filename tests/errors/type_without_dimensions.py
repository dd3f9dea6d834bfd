import snug.tensor as T

T.TensorType("float32", 2)
