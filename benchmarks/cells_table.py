"""The cells of cells.py: small programs, written once over the functions that each contestant's
file gives (`f`), with the shapes of their arguments by size."""

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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
    pyhpc: str | None = None  # a kernel that a contestant's own file of the checkout computes

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

# gathers, scatters, sorts
ROWS = [(1000, 16, 100), (10**5, 64, 10**4), (10**6, 8, 10**5)]
cell(
    "take-rows",
    "gathers",
    ROWS,
    lambda m, n, k, count: [m.normal(n, k), m.below(n, count)],
    lambda f, x, i: f.take(x, i) * 2,
)
cell(
    "pick-columns",
    "gathers",
    [(100, 10), (10000, 10), (4096, 1000)],
    lambda m, n, k: [m.normal(n, k), m.below(k, n)],
    lambda f, x, i: f.pick(x, i),
)
cell(
    "add-rows",
    "scatters",
    [(1000, 16, 100), (10**4, 64, 10**4), (10**5, 8, 10**5)],
    lambda m, n, k, count: [m.normal(n, k), m.below(n, count), m.normal(count, k)],
    lambda f, x, i, v: f.add_at(x, i, v),
)
cell("sort", "sorts", [1000, 10**5, 10**6], normal, lambda f, x: f.sort(x))
cell("sort-rows", "sorts", [(100, 10), (10000, 10), (1000, 1000)], normal, lambda f, x: f.sort(x))

# products
for name, shapes in {
    "square": [(32, 32, 32), (256, 256, 256), (1000, 1000, 1000)],
    "tall": [(1000, 16, 16), (10**4, 64, 64), (10**5, 32, 10)],
    "wide": [(1, 256, 256), (16, 1024, 1024), (64, 768, 3072)],
    "inner": [(10, 1000, 10), (16, 10**5, 16), (64, 10**5, 64)],
}.items():
    cell(
        f"product-{name}",
        "products",
        shapes,
        lambda m, n, k, p: [m.normal(n, k), m.normal(k, p)],
        lambda f, x, y: f.dot(x, y),
    )
cell(
    "product-vector",
    "products",
    [(100, 100), (1000, 1000), (4000, 3000)],
    lambda m, n, k: [m.normal(n, k), m.normal(k)],
    lambda f, x, y: f.dot(x, y),
)
cell(
    "product-batched",
    "products",
    [(10, 16, 16), (64, 64, 64), (256, 128, 64)],
    lambda m, n, k, p: [m.normal(n, k, p), m.normal(n, p, k)],
    lambda f, x, y: f.matmul(x, y),
)
cell(
    "dense-relu",
    "products",
    [(64, 64, 64), (128, 784, 256), (512, 768, 3072)],
    lambda m, n, k, p: [m.normal(n, k), m.normal(k, p, scale=0.05), m.normal(p)],
    lambda f, x, w, b: f.maximum(f.dot(x, w) + b, 0.0),
)

# convolutions
IMAGES = [(4, 3, 16, 28, 3), (16, 32, 64, 28, 3), (8, 64, 64, 56, 3)]


def images_and_filters(m, n, k, out, side, width):
    return [m.normal(n, k, side, side), m.normal(out, k, width, width, scale=0.1)]


cell(
    "conv",
    "convolutions",
    IMAGES,
    images_and_filters,
    lambda f, x, w: f.conv2d(x, w, padding=1),
)
cell(
    "conv-relu-pool",
    "convolutions",
    IMAGES,
    images_and_filters,
    lambda f, x, w: f.max_pool(f.maximum(f.conv2d(x, w, padding=1), 0.0), 2),
)

# attention, losses with gradients, steps of small networks


def attention(f, q, k, v):
    scores = f.matmul(q, f.transpose(k, (0, 2, 1))) * 0.125
    return f.matmul(softmax_last(f, scores), v)


def softmax_last(f, x):
    e = f.exp(x - f.max(x, axis=-1, keepdims=True))
    return e / f.sum(e, axis=-1, keepdims=True)


HEADS = [(8, 32, 16), (16, 128, 64), (32, 256, 64)]
cell(
    "attention",
    "attention",
    HEADS,
    lambda m, n, t, k: [m.normal(n, t, k) for _ in range(3)],
    attention,
)


def cross_entropy(f, scores, labels):
    shifted = scores - f.max(scores, axis=1, keepdims=True)
    return f.mean(f.log(f.sum(f.exp(shifted), axis=1)) - f.pick(shifted, labels))


cell(
    "cross-entropy-grad",
    "losses",
    [(100, 10), (65536, 10), (4096, 1000)],
    lambda m, n, k: [m.normal(n, k), m.below(k, n)],
    lambda f, x, y: f.value_and_grads(lambda x, y: cross_entropy(f, x, y), [x], y),
    gradients=True,
)
cell(
    "logistic-grad",
    "losses",
    [(100, 10), (10000, 100), (10000, 784)],
    lambda m, n, k: [m.normal(k, scale=0.1), m.normal(n, k), m.uniform(n)],
    lambda f, w, x, y: f.value_and_grads(
        lambda w, x, y: f.mean((f.sigmoid(f.dot(x, w)) - y) ** 2), [w], x, y
    ),
    gradients=True,
)


def mlp_loss(f, w1, b1, w2, b2, x, y):
    hidden = f.maximum(f.dot(x, w1) + b1, 0.0)
    return cross_entropy(f, f.dot(hidden, w2) + b2, y)


cell(
    "mlp-step",
    "steps",
    [(32, 20, 32, 10), (128, 784, 256, 10), (512, 784, 512, 100)],
    lambda m, n, k, h, c: [
        m.normal(k, h, scale=0.05),
        m.normal(h),
        m.normal(h, c, scale=0.05),
        m.normal(c),
        m.normal(n, k),
        m.below(c, n),
    ],
    lambda f, *a: f.value_and_grads(lambda *a: mlp_loss(f, *a), a[:4], *a[4:]),
    gradients=True,
)


def cnn_loss(f, w1, w2, w3, x, y):
    x = f.max_pool(f.maximum(f.conv2d(x, w1, padding=1), 0.0), 2)
    x = f.max_pool(f.maximum(f.conv2d(x, w2, padding=1), 0.0), 2)
    return cross_entropy(f, f.dot(f.mean(x, axis=(2, 3)), w3), y)


cell(
    "cnn-step",
    "steps",
    [(4, 1, 8, 16), (32, 1, 16, 28), (32, 3, 32, 32)],
    lambda m, n, k, c, side: [
        m.normal(c, k, 3, 3, scale=0.2),
        m.normal(2 * c, c, 3, 3, scale=0.1),
        m.normal(2 * c, 10, scale=0.2),
        m.normal(n, k, side, side),
        m.below(10, n),
    ],
    lambda f, *a: f.value_and_grads(lambda *a: cnn_loss(f, *a), a[:3], *a[3:]),
    gradients=True,
    dtypes=("float32",),
)


def block_loss(f, wq, wk, wv, wo, w1, w2, x, sizes):
    n, t, k = sizes

    def project(x, w):
        return f.reshape(f.dot(f.reshape(x, (n * t, k)), w), (n, t, w_columns[id(w)]))

    w_columns = {id(wq): k, id(wk): k, id(wv): k, id(wo): k, id(w1): 4 * k}
    x = x + project(attention(f, project(x, wq), project(x, wk), project(x, wv)), wo)
    flat = f.reshape(x, (n * t, k))
    centred = flat - f.mean(flat, axis=1, keepdims=True)
    normed = centred / f.sqrt(f.mean(centred * centred, axis=1, keepdims=True) + 1e-5)
    return f.mean((flat + f.dot(f.maximum(f.dot(normed, w1), 0.0), w2)) ** 2)


def transformer_cell(size):
    n, t, k = size
    return lambda f, *a: f.value_and_grads(
        lambda *a: block_loss(f, *a, sizes=(n, t, k)), a[:6], *a[6:]
    )


for number, size in enumerate([(2, 16, 32), (8, 64, 64), (8, 128, 256)]):
    cell(
        f"transformer-step-{number}",
        "steps",
        [size],
        lambda m, n, t, k: [
            *(m.normal(k, k, scale=0.1) for _ in range(4)),
            m.normal(k, 4 * k, scale=0.1),
            m.normal(4 * k, k, scale=0.1),
            m.normal(n, t, k),
        ],
        transformer_cell(size),
        gradients=True,
    )

# The public pyhpc kernels, of a checkout of github.com/dionhaefner/pyhpc-benchmarks in $PYHPC. The
# equation of state is written for NumPy, and runs on the functions of a contestant as it is; of the
# isoneutral mixing and of the turbulent kinetic energy each contestant has a file, Snug that of
# Aesara and that of JAX (jax_on_snug.py).
PYHPC = os.environ.get("PYHPC")
PYHPC_KERNELS = ["isoneutral_mixing", "turbulent_kinetic_energy"]


def equation_of_state(f, sa, ct, p):
    source = Path(PYHPC, "benchmarks/equation_of_state/eos_numpy.py").read_text()
    names = {"np": f}
    exec(source.replace("import numpy as np", ""), names)
    return names["gsw_dHdT"](sa, ct, p)


def pyhpc_call(cell, size, backend):
    """The kernel of `cell` as a function without arguments."""
    sys.path.insert(0, PYHPC)
    module = importlib.import_module(f"benchmarks.{cell.pyhpc}")
    return module.get_callable(backend, cell.sizes[size][0])


if PYHPC:
    cell(
        "equation-of-state",
        "pyhpc",
        [4096, 65536, 10**6],
        lambda m, n: [m.uniform(n, high=10), m.uniform(n, high=20), m.uniform(n, high=1000)],
        equation_of_state,
    )
    for kernel in PYHPC_KERNELS:
        cell(
            kernel.replace("_", "-"),
            "pyhpc",
            [4096, 65536, 10**6],
            None,
            None,
            dtypes=("float64",),
            pyhpc=kernel,
        )
