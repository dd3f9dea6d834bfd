import snug.tensor as T

order, x = T.dscalar("order"), T.dscalar("x")
y = T.jv(order, x)
T.grad(y, order)
