"""The cells of cells.py: small programs, written once over the functions that each contestant's
file gives (`f`), with the shapes of their arguments by size."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

BOTH = ("float32", "float64")


@dataclass(frozen=True)
class Cell:
    name: str
    kind: str
    sizes: list  # per size the numbers that shapes are made of
    inputs: Callable  # (make, *size) -> arguments
    program: Callable  # (f, *arguments) -> result or tuple of results
    dtypes: tuple = BOTH
    gradients: bool = False

    def arguments(self, size, dtype):
        return self.inputs(Make(dtype), *self.sizes[size])


class Make:
    """Arguments with fixed contents."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.random = np.random.default_rng(1)

    def normal(self, *shape, scale=1.0):
        return (scale * self.random.standard_normal(shape)).astype(self.dtype)

    def uniform(self, *shape, low=0.1, high=1.0):
        return self.random.uniform(low, high, shape).astype(self.dtype)

    def below(self, count, *shape):
        return self.random.integers(0, count, shape)


CELLS = {}


def cell(name, kind, sizes, inputs, program, **more):
    sizes = [size if isinstance(size, tuple) else (size,) for size in sizes]
    CELLS[name] = Cell(name, kind, sizes, inputs, program, **more)


def normal(make, *shape):
    return [make.normal(*shape)]


# elementwise
LONG = [1000, 10**5, 4 * 10**6]
cell(
    "chain",
    "elementwise",
    LONG,
    lambda m, n: [m.normal(n), m.normal(n), m.normal(n)],
    lambda f, x, y, z: f.maximum(x * y + z, 0.0) * (x - z) + 0.5 * y,
)
cell(
    "functions",
    "elementwise",
    LONG,
    lambda m, n: [m.normal(n), m.uniform(n)],
    lambda f, x, y: f.tanh(f.exp(x) * 0.5 + f.log(y)),
)
cell(
    "gelu",
    "elementwise",
    [(16, 64), (256, 768), (2048, 1024)],
    normal,
    lambda f, x: 0.5 * x * (1 + f.erf(x * 0.7071067811865476)),
)

# reductions
for name, shapes in {
    "rows": [(100, 100), (65536, 32), (4096, 1000)],
    "short rows": [(1000, 10), (100000, 10), (300000, 3)],
}.items():
    tag = name.replace(" ", "-")
    cell(f"sum-{tag}", "reductions", shapes, normal, lambda f, x: f.sum(x, axis=1))
    cell(f"max-{tag}", "reductions", shapes, normal, lambda f, x: f.max(x, axis=1))
    cell(f"argmax-{tag}", "argmax", shapes, normal, lambda f, x: f.argmax(x, axis=1))
    cell(f"softmax-{tag}", "norms", shapes, normal, lambda f, x: f.softmax(x))
    cell(f"logsumexp-{tag}", "norms", shapes, normal, lambda f, x: f.logsumexp(x, axis=1))
DOWN = [(1000, 10), (100000, 10), (50000, 64), (4096, 1000)]
cell("sum-columns", "reductions", DOWN, normal, lambda f, x: f.sum(x, axis=0))
cell("max-columns", "reductions", DOWN, normal, lambda f, x: f.max(x, axis=0))
cell("argmax-columns", "argmax", DOWN, normal, lambda f, x: f.argmax(x, axis=0))
MIDDLE = [(16, 16, 16), (64, 128, 256), (1000, 100, 10), (32, 1000, 100)]
cell("sum-middle", "reductions", MIDDLE, normal, lambda f, x: f.sum(x, axis=1))
cell("max-middle", "reductions", MIDDLE, normal, lambda f, x: f.max(x, axis=1))
cell("sum-outer-axes", "reductions", MIDDLE, normal, lambda f, x: f.sum(x, axis=(0, 2)))
cell("sum-all", "reductions", LONG, normal, lambda f, x: f.sum(x))
cell("mean-square", "reductions", LONG, normal, lambda f, x: f.mean(x * x))
cell("prod-rows", "reductions", [(100, 100), (4096, 1000)], normal, lambda f, x: f.prod(x, axis=1))

# norms
NORMED = [(100, 64), (65536, 32), (2048, 768)]


def layer_norm(f, x, g, b):
    centred = x - f.mean(x, axis=1, keepdims=True)
    return centred / f.sqrt(f.mean(centred * centred, axis=1, keepdims=True) + 1e-5) * g + b


cell(
    "layer-norm",
    "norms",
    NORMED,
    lambda m, n, k: [m.normal(n, k), m.normal(k), m.normal(k)],
    layer_norm,
)
cell(
    "softmax-wide",
    "norms",
    [(8, 1000), (512, 1000), (32, 50000)],
    normal,
    lambda f, x: f.softmax(x),
)
cell(
    "logsumexp-wide",
    "norms",
    [(8, 1000), (512, 1000), (32, 50000)],
    normal,
    lambda f, x: f.logsumexp(x, axis=1),
)

# cumulative, transposes, broadcasts
cell(
    "cumsum-rows",
    "cumulative",
    [(100, 100), (1000, 1000), (100000, 10)],
    normal,
    lambda f, x: f.cumsum(x, axis=1),
)
cell(
    "cumsum-columns",
    "cumulative",
    [(100, 100), (1000, 1000), (100000, 10)],
    normal,
    lambda f, x: f.cumsum(x, axis=0),
)
TURNED = [(100, 100), (1000, 1000), (4000, 3000), (10, 100000), (100000, 10), (3, 200000)]
cell("transpose-add", "transposes", TURNED, normal, lambda f, x: x.T + 1)
cell(
    "transpose-both",
    "transposes",
    [(100, 100), (1000, 1000), (3000, 3000)],
    lambda m, n, k: [m.normal(n, k), m.normal(k, n)],
    lambda f, x, y: x.T + y,
)
cell(
    "transpose-3",
    "transposes",
    [(16, 16, 16), (64, 128, 64), (128, 100, 200)],
    normal,
    lambda f, x: f.transpose(x, (0, 2, 1)) * 2,
)
cell(
    "channels-last",
    "transposes",
    [(4, 8, 8, 8), (16, 64, 28, 28), (8, 3, 224, 224)],
    normal,
    lambda f, x: f.transpose(x, (0, 2, 3, 1)) * 2,
)
cell(
    "outer-sum",
    "broadcasts",
    [(100, 100), (1000, 1000), (3000, 1000), (100000, 10)],
    lambda m, n, k: [m.normal(n), m.normal(k)],
    lambda f, x, y: x[:, None] * 2 + y[None, :],
)
cell(
    "scale-rows",
    "broadcasts",
    [(100, 100), (1000, 1000), (100000, 10), (300000, 3)],
    lambda m, n, k: [m.normal(n, k), m.normal(n), m.normal(k)],
    lambda f, x, a, b: x * a[:, None] + b[None, :],
)
