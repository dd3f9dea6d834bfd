import snug.tensor as T

x = T.matrix("x")
T.signal.pool.pool_3d(x, (2, 2, 2))
