import snug.tensor as T

mask = T.TensorType("bool", (False,))("mask")
y = -mask
