import numpy as np

import snug
import snug.tensor as T

x, w = T.ftensor5("x"), T.ftensor5("w")
f = snug.function([x, w], T.nnet.conv3d(x, w))
f(np.zeros((2, 3, 4, 4, 4), "float32"), np.zeros((5, 2, 2, 2, 2), "float32"))
