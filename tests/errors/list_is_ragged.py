import snug.tensor as T

T.exp([[1], [2, 3]])
