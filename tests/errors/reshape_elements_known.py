import numpy as np

import snug.tensor as T

x = T.constant(np.zeros((3, 3)))
x.reshape((4, 2))
