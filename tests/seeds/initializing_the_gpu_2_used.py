"""Added: calls of update_w with larger and larger weights, as the comments of the program tell."""

import os
import runpy

import numpy as np

names = runpy.run_path(os.path.join(os.path.dirname(__file__), "initializing_the_gpu_2.py"))
f, update_w, W, b = (names[name] for name in ("f", "update_w", "W", "b"))
rng = np.random.default_rng(0)
x = rng.normal(size=(4, 10))
np.testing.assert_array_equal(f(x), np.zeros((4, 10)))
for size in (10, 20, 40):  # W grows by an update, b by its value
    weights = rng.normal(size=(size, size))
    assert update_w(weights) == []
    b.set_value(np.ones(size))
    assert W.get_value().shape == (size, size)
    x = rng.normal(size=(4, size))
    np.testing.assert_allclose(f(x), x @ weights + 1, rtol=1e-10, atol=1e-10)
print("W grew to", W.get_value().shape)
