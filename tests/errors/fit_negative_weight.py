import numpy as np

from snug import nn

model = nn.Sequential(nn.Dense(3)).build((None, 4))
weights = np.array([1, 2, -1, 1])
nn.fit(model, (np.ones((4, 4), "float32"), np.zeros(4, "int64"), weights), progress="silent")
