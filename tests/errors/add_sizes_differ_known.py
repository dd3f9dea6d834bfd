import numpy as np

import snug.tensor as T

x = T.constant(np.zeros((2, 3), "float32"))
x + np.zeros((2, 4), "float32")
