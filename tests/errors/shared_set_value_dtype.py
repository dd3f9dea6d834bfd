import numpy as np

import snug

w = snug.shared(np.zeros(3, "float32"), "w")
w.set_value(np.zeros(3, "float64"))
