import snug.tensor as T

x = T.tensor4("x")
T.signal.pool.pool_2d(x, ws=(2, 2), ds=(2, 2))
