"""Added: its results are compared with NumPy's."""

import os
import runpy

import numpy as np

names = runpy.run_path(os.path.join(os.path.dirname(__file__), "rarely_using_the_gpu_2.py"))
w, b = names["w"].get_value(), names["b"].get_value()
assert w.dtype == "float64"  # made before the program sets floatX, or it does not set it
for size, rows in (("small", 10), ("large", 10000)):
    x, result = names[f"x_data_{size}"], names[f"result_{size}"]
    assert x.dtype == "float32" and result.shape == (rows, 5)
    np.testing.assert_allclose(result, x.astype("float64") @ w + b, rtol=1e-6, atol=1e-6)
