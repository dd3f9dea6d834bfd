import snug.tensor as T

T.TensorType("float32", (False, False), shape=(3,))
