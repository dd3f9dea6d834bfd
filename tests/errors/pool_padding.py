import snug.tensor as T

x = T.tensor4("x")
T.signal.pool.pool_2d(x, (2, 2), ignore_border=True, pad=(2, 0))
