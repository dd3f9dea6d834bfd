import numpy as np

import snug.tensor as T

a = T.constant(np.zeros((2, 3)))
b = T.constant(np.zeros((4, 5)))
T.dot(a, b)
