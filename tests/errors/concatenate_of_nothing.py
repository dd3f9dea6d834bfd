import snug.tensor as T

T.concatenate([])
