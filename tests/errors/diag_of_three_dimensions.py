import snug.tensor as T

T.diag(T.dtensor3("x"))
