import numpy as np

import snug
import snug.tensor as T

x, w = T.ftensor4("x"), T.ftensor4("w")
y = T.nnet.conv2d_transpose(x, w, (None, None, 9, 9), input_dilation=(2, 2))
f = snug.function([x, w], y)
f(np.zeros((1, 3, 3, 3), "float32"), np.zeros((3, 2, 3, 3), "float32"))
