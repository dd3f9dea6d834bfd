import snug.tensor as T

T.moveaxis(T.dtensor3("x"), [0, 0], [1, 2])
