import numpy as np

import snug
import snug.tensor as T

x, y = T.matrix("x"), T.ivector("y")
loss = T.nnet.categorical_crossentropy(T.nnet.softmax(x), y).mean()
f = snug.function([x, y], loss)
f(np.zeros((2, 3), "float32"), np.array([0, 3], "int32"))
