"""Added: calls of f_batch in a loop, as the comments of the program tell."""

import os
import runpy

import numpy as np

names = runpy.run_path(os.path.join(os.path.dirname(__file__), "initializing_the_gpu_3.py"))
f_batch, W, b = names["f_batch"], names["W"].get_value(), names["b"].get_value()
data = np.random.default_rng(0).normal(size=(32, 5000))
for batch_size in (1, 8, 32, 100):
    rows = min(batch_size, 32)
    result = f_batch(data, batch_size)
    assert result.shape == (rows, 5000)
    np.testing.assert_allclose(result, data[:rows] @ W + b, rtol=1e-8, atol=1e-8)
print("batches of 1, 8, 32 and 100 rows")
