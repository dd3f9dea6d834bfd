from snug import nn

block = nn.Sequential(nn.Conv2d(8, 3, pad="half", stride=2), nn.BatchNorm())
nn.Residual(block).build((None, 4, 8, 8))
