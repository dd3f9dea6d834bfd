import snug.tensor as T

T.constant([object()])
