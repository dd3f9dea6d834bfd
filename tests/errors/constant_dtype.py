import snug.tensor as T

T.constant([1, 2], dtype="text")
