from snug import nn

nn.Residual(nn.Dense(8), nn.Dense(7)).build((None, 4))
