import numpy as np

import snug
import snug.tensor as T

z = T.zmatrix("z")
f = snug.function([z], T.fft.fft(z))
f(np.zeros((4, 0), "complex128"))
