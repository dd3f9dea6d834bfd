import numpy as np

import snug
import snug.tensor as T

snug.config.compute_test_value = "raise"
x, w = T.matrix("x"), snug.shared(np.ones((3, 2), "float32"), "w")
x.tag.test_value = np.ones((4, 5), "float32")
y = T.dot(x, w)
