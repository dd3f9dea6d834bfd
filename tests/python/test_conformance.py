"""Every row of the op table x dtypes x shapes: values against NumPy, the compiled function against
the reference interpreter and the checking mode, gradients against finite differences.

The shapes are scalar, empty, of size 1, broadcast, strided with steps of either sign, and large
(more than a vector and more than what one thread takes). A row without a sample is an error."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import (
    ALL,
    DISCRETE,
    DTYPES,
    FLOATS,
    INTEGERS,
    MODES,
    NUMBERS,
    STEPS,
    UNSIGNED,
    accuracy,
    agree,
    agree_gradient,
    compare,
    each,
    elementwise,
    layouts,
    moved,
    ops_of,
    rows,
    sample,
    sampled,
    seed,
    variable,
    wide,
)
from snug import _core

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


# ---- elementwise rows


def sigmoid(a):
    return np.where(np.isnan(a), a, np.exp(-np.logaddexp(0, -a)))


# name: NumPy's function, dtypes, and the range of floats, which is also that of the gradient.
UNARY = {
    "abs": (np.abs, ALL),
    "acos": (np.arccos, ALL, -1, 1),
    "acosh": (np.arccosh, ALL, 1, 9),
    "asin": (np.arcsin, ALL, -1, 1),
    "asinh": (np.arcsinh, ALL),
    "atan": (np.arctan, ALL),
    "atanh": (np.arctanh, ALL, -0.95, 0.95),
    "ceil": (np.ceil, ALL),
    "cos": (np.cos, ALL),
    "cosh": (np.cosh, ALL),
    "erf": (each(math.erf), ALL),
    "erfc": (each(math.erfc), ALL),
    "exp": (np.exp, ALL),
    "exp2": (np.exp2, ALL),
    "expm1": (np.expm1, ALL),
    "floor": (np.floor, ALL),
    "invert": (np.invert, DISCRETE),
    "isinf": (np.isinf, ALL),
    "isnan": (np.isnan, ALL),
    "log": (np.log, ALL, 0.05, 9),
    "log10": (np.log10, ALL, 0.05, 9),
    "log1p": (np.log1p, ALL, -0.9, 9),
    "log2": (np.log2, ALL, 0.05, 9),
    "neg": (np.negative, NUMBERS),
    "round": (np.rint, ALL),
    "sigmoid": (sigmoid, ALL),
    "sign": (np.sign, NUMBERS),
    "sin": (np.sin, ALL),
    "sinh": (np.sinh, ALL),
    "softplus": (lambda a: np.logaddexp(a, 0.0), ALL),
    "sqr": (np.square, NUMBERS),
    "sqrt": (np.sqrt, ALL, 0.05, 9),
    "stop_gradient": (lambda a: a, ALL),
    "tan": (np.tan, ALL, -1.4, 1.4),
    "tanh": (np.tanh, ALL),
    "trunc": (np.trunc, ALL),
}
BINARY = {
    "add": (np.add, ALL),
    "atan2": (np.arctan2, ALL),
    "bit_and": (np.bitwise_and, DISCRETE),
    "bit_or": (np.bitwise_or, DISCRETE),
    "bit_xor": (np.bitwise_xor, DISCRETE),
    "div": (np.true_divide, ALL, 0.5, 4),
    "eq": (np.equal, ALL),
    "floor_div": (np.floor_divide, NUMBERS),
    "ge": (np.greater_equal, ALL),
    "gt": (np.greater, ALL),
    "le": (np.less_equal, ALL),
    "lt": (np.less, ALL),
    "maximum": (np.maximum, ALL),
    "minimum": (np.minimum, ALL),
    "mod": (np.mod, NUMBERS),
    "mul": (np.multiply, ALL),
    "ne": (np.not_equal, ALL),
    "pow": (np.power, NUMBERS, 0.2, 3),
    "shl": (np.left_shift, INTEGERS),
    "shr": (np.right_shift, INTEGERS),
    "sub": (np.subtract, NUMBERS),
}


@rows(*UNARY)
def test_unary(row):
    elementwise(row, 1, *UNARY[row])


@rows(*BINARY)
def test_binary(row):
    elementwise(row, 2, *BINARY[row])


@pytest.mark.parametrize("row", sorted((set(UNARY) | set(BINARY)) - STEPS))
def test_gradient_of_elementwise(row):
    arity = 1 if row in UNARY else 2
    _, _, *limits = UNARY.get(row) or BINARY[row]
    low, high = limits or (-2, 2)
    middle, half = (low + high) / 2, (high - low) / 2 * 0.9
    x = [variable("float64", 2, f"x{k}") for k in range(arity)]
    a = [sample("float64", (2, 3), -1, 1, False, k) * half + middle for k in range(arity)]
    agree_gradient(row, getattr(_core, row)(*x), x, a, 1e-5)


def test_gradient_beside_a_small_integer():
    """Squares of the integer do not overflow in its own dtype."""
    x = variable("float64", 1, "x")
    for a in (np.array([100, -7], "int8"), np.array([True, False])):
        y = variable(a.dtype.name, 1, "y")
        agree_gradient("atan2", [T.arctan2(y, x), T.arctan2(x, y)], [x, y], [np.ones(2) * 2.0, a])


def test_integer_division_by_zero():
    for dtype in INTEGERS:
        x, y = variable(dtype, 1), variable(dtype, 1)
        limits = np.iinfo(dtype)
        a = np.array([7, 0, limits.min, limits.max, limits.min], dtype)
        b = np.array([0, 0, 0, 0, limits.max if dtype in UNSIGNED else -1], dtype)
        want = [np.floor_divide(a, b), np.mod(a, b)]
        agree("mod", [x, y], [x // y, x % y], [((a, b), want)], what=dtype)


MIXED = [
    ("int8", "uint8"),
    ("int8", "float16"),
    ("int32", "float32"),
    ("int64", "float32"),
    ("uint32", "int32"),
    ("bool", "int8"),
    ("bool", "float32"),
    ("float16", "bfloat16"),
    ("bfloat16", "float64"),
    ("uint64", "int64"),
]


@pytest.mark.parametrize("pair", MIXED, ids="-".join)
def test_operands_of_two_dtypes(pair):
    """Both are cast to the upcast of the two, which is Theano's: int64 and float32 give float64."""
    x, y = variable(pair[0], 1), variable(pair[1], 1)
    a, b = sample(pair[0], (33,), key=1), sample(pair[1], (33,), key=2)
    outputs = [x + y, x * y, T.maximum(x, y), T.lt(x, y)]
    t = DTYPES[outputs[0].dtype]
    u, v = wide(a.astype(t)), wide(b.astype(t))
    want = [u + v, u * v, np.maximum(u, v), u < v]
    agree("maximum", [x, y], outputs, [((a, b), want)], 1, what=str(pair))


@rows("switch")
def test_switch(row):
    for dtype in ALL:
        for condition in ("bool", "int8", "float32") if dtype == "float32" else ("bool",):
            c, x, y = variable(condition, 2), variable(dtype, 2), variable(dtype, 2)
            calls = []
            for shape in [(0, 3), (1, 1), (5, 33)]:
                k = sample(condition, shape)
                a, b = sample(dtype, shape, key=1), sample(dtype, shape, key=2)
                calls.append(((k, a, b), wide(np.where(k != 0, a, b))))
            agree(row, [c, x, y], T.switch(c, x, y), calls, 0, what=dtype)
    c, x, y = variable("bool", 1), variable("float64", 1), variable("float64", 1)
    arguments = [sample("bool", (5,)), sample("float64", (5,)), sample("float64", (5,), key=1)]
    agree_gradient(row, T.switch(c, x, y), [c, x, y], arguments)


@rows("cast")
def test_cast(row):
    """As astype. Floats outside the range of an integer type have no value in C or NumPy: samples
    stay inside."""
    for source in ALL:
        x = variable(source, 2)
        a = sample(source, (4, 17), special=source not in FLOATS)
        others = [t for t in ALL if t != source]
        want = []
        for target in others:
            if source in FLOATS and target in UNSIGNED:
                want.append(np.abs(wide(a)).astype(target))
            else:
                want.append(wide(a) if target in FLOATS else a.astype(DTYPES[target]))
        outputs = [
            _core.cast(T.abs_(x) if source in FLOATS and t in UNSIGNED else x, t) for t in others
        ]
        agree(row, [x], outputs, [((b,), want) for b in layouts(a)], 0.5, what=source)
        if source in FLOATS:
            b = sample(source, (4, 17))
            floats = [t for t in FLOATS if t != source] + ["bool"]
            want = [wide(b) if t in FLOATS else wide(b) != 0 for t in floats]
            agree(row, [x], [_core.cast(x, t) for t in floats], [((b,), want)], 0.5, what=source)
    x = variable("float64", 1)
    agree_gradient(row, T.cast(T.cast(x, "float32"), "float64"), [x], [np.zeros(2)], 1e-2, 1e-2)


# ---- reductions


AXES = [None, 0, 1, -1, (0, 2), (0, 1, 2), ()]


def sums(a, axis, function, dtype):
    """Integers wrap in the result's dtype; floats are added exactly enough in float64."""
    if a.dtype.kind in "biu":
        return function(a.astype(dtype), axis=axis, dtype=dtype)
    return function(wide(a), axis=axis)


@rows("sum", "prod")
def test_sum_and_prod(row):
    """Small integers add up in int64 or uint64, as in NumPy and Theano."""
    function = getattr(np, row)
    for dtype in ALL:
        x = variable(dtype, 3)
        axes = [a for a in AXES if a != ()]
        outputs = [getattr(T, row)(x, axis=a) for a in axes]
        result = outputs[0].dtype
        assert result == (
            "uint64" if dtype in UNSIGNED else "int64" if dtype in DISCRETE else dtype
        )
        low, high = (0.5, 1.5) if row == "prod" else (-4, 4)
        for shape, special in [
            ((0, 2, 3), False),
            ((2, 0, 3), False),
            ((1, 1, 1), False),
            ((3, 5, 7), True),
            ((4, 3, 65), False),
        ]:
            a = sample(dtype, shape, low, high, special=special)
            if special and dtype in FLOATS:  # one NaN, one infinity, no sum that overflows
                a = sample(dtype, shape, low, high, special=False)
                a[0, 0, 0], a[1, 2, 3] = np.nan, np.inf
            want = [sums(a, axis, function, result) for axis in axes]
            size = np.nansum(np.abs(np.where(np.isfinite(wide(a)), wide(a), 0))) + 1
            scale = size if row == "sum" and dtype == "float64" else None
            turned = np.ascontiguousarray(a[::-1, :, ::-1])[::-1, :, ::-1]
            calls = [((b,), want) for b in (a, np.asfortranarray(a), turned)]
            ulps = a.size if row == "prod" or dtype == "float64" else 2
            agree(row, [x], outputs, calls, ulps, scale=scale, what=f"{dtype} {shape}")
    x = variable("float32", 2)
    a = sample("float32", (257, 1025), 0.999, 1.001, special=False)
    axes = [None, 0, 1]
    want = [function(wide(a), axis=axis) for axis in axes]
    outputs = [getattr(T, row)(x, axis=axis) for axis in axes]
    agree(row, [x], outputs, [((b,), want) for b in layouts(a)], 4, ["fast"], what="large")
    x = variable("float64", 3)
    b = sample("float64", (2, 3, 2), special=False)
    agree_gradient(row, [getattr(T, row)(x, axis=a) for a in (0, (1, 2))], [x], [b], 1e-5)


@rows("max", "min", "argmax", "argmin")
def test_extremes(row):
    """A NaN is the largest and the smallest of all, as in NumPy; of equal ones the first counts."""
    for dtype in ALL:
        x = variable(dtype, 3)
        axes = [a for a in AXES if a not in ((0, 2), (0, 1, 2), ())]
        outputs = [getattr(T, row)(x, axis=axis) for axis in axes]
        function = getattr(np, row)
        calls = []
        for shape in [(1, 1, 1), (3, 5, 7), (4, 3, 65)]:
            a = sample(dtype, shape)
            if dtype in INTEGERS:
                a.reshape(-1)[:: max(1, a.size // 3)] = np.iinfo(dtype).max
            want = [function(wide(a), axis=axis) for axis in axes]
            calls += [((b,), want) for b in (a, np.asfortranarray(a), a[::1, ::-1][:, ::-1])]
        agree(row, [x], outputs, calls, 0, what=dtype)
    for dtype in ("float32", "int32"):
        x = variable(dtype, 2)
        a = sample(dtype, (257, 1025), special=False)
        want = [getattr(np, row)(a, axis=axis) for axis in (None, 0, 1)]
        outputs = [getattr(T, row)(x, axis=axis) for axis in (None, 0, 1)]
        agree(row, [x], outputs, [((b,), want) for b in layouts(a)], 0, ["fast"], what="large")
    if not row.startswith("arg"):
        x = variable("float64", 2)
        a = np.random.default_rng(0).permutation(12.0 * np.arange(12)).reshape(3, 4)
        agree_gradient(row, [getattr(T, row)(x, axis=i) for i in (0, 1)], [x], [a])


@rows("any", "all")
def test_any_and_all(row):
    for dtype in ALL:
        x = variable(dtype, 3)
        axes = [None, 0, 1, (0, 2)]
        outputs = [getattr(T, row)(x, axis=axis) for axis in axes]
        calls = []
        for shape in [(0, 2, 3), (1, 1, 1), (3, 5, 7), (2, 3, 130)]:
            for share in (0.0, 0.02, 0.98, 1.0):
                chosen = np.random.default_rng(seed((shape, share))).random(shape) < share
                a = np.where(chosen, sample(dtype, shape, 1, 2, False), 0).astype(DTYPES[dtype])
                calls.append(((a,), [getattr(np, row)(wide(a) != 0, axis=i) for i in axes]))
        agree(row, [x], outputs, calls, 0, what=dtype)


def test_reductions_keep_dimensions():
    x = variable("float64", 3)
    a = sample("float64", (2, 3, 4), special=False)
    names = ["sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "mean", "var", "std"]
    outputs = [getattr(T, n)(x, axis=1, keepdims=True) for n in names]
    want = [getattr(np, n)(a, axis=1, keepdims=True) for n in names]
    agree("sum", [x], outputs, [((a,), want)], 16)


# ---- views, joining, shapes


@rows("dimshuffle")
def test_dimshuffle(row):
    patterns = [(2, 0, 1), (0, "x", 2, 1), (2, 1, 0), ("x", 1, 2, 0, "x")]

    def numpy(a):
        for p in patterns:
            order = [i for i in p if i != "x"]
            index = tuple(None if i == "x" else slice(None) for i in p)
            yield a.transpose(order)[index]

    moved(row, lambda x: [x.dimshuffle(*p) for p in patterns], numpy)
    x = T.TensorType("float64", (False, True, False))("x")  # broadcastable axes may be dropped
    a = sample("float64", (3, 1, 4), special=False)
    agree(row, [x], x.dimshuffle(2, 0), [((a,), a[:, 0].T)], 0)
    agree_gradient(row, x.dimshuffle(2, 0), [x], [a])


@rows("reshape")
def test_reshape(row):
    moved(
        row,
        lambda x: [
            x.reshape((x.shape[0] * x.shape[1], x.shape[2])),
            x.reshape((x.shape[2], -1, x.shape[0])),
            x.flatten(),
            x.dimshuffle(2, 1, 0).flatten(2),
        ],
        lambda a: [
            a.reshape((a.shape[0] * a.shape[1], a.shape[2])),
            a.reshape((a.shape[2], a.shape[1], a.shape[0])),
            a.reshape(-1),
            a.transpose(2, 1, 0).reshape(a.shape[2], a.shape[1] * a.shape[0]),
        ],
    )


@rows("broadcast_to")
def test_broadcast_to(row):
    for dtype in ALL:
        n = T.lscalar("n")
        scalar, line = variable(dtype, 0), variable(dtype, 2, None, (True, False))
        outputs = [T.alloc(scalar, n, 3), T.broadcast_to(line, (2, n, line.shape[1]))]
        calls = []
        for count in (0, 1, 40):
            s, a = sample(dtype, ()), sample(dtype, (1, 35))
            want = [np.broadcast_to(s, (count, 3)), np.broadcast_to(a, (2, count, 35))]
            calls.append(((count, s, a), [wide(w) for w in want]))
        agree(row, [n, scalar, line], outputs, calls, 0, what=dtype)
    x = variable("float64", 2, "x", (True, False))
    y = T.broadcast_to(x, (3, x.shape[1]))
    agree_gradient(row, y, [x], [sample("float64", (1, 4), special=False)])


@rows("rebroadcast")
def test_rebroadcast(row):
    x, y = variable("float64", 2, "x"), variable("float64", 2, "y")
    z = T.addbroadcast(x, 0) * y
    a, b = sample("float64", (1, 4), special=False), sample("float64", (3, 4), special=False)
    agree(row, [x, y], z, [((a, b), a * b)])
    agree_gradient(row, z, [x, y], [a, b])


@rows("shape")
def test_shape(row):
    x = variable("float32", 3)
    outputs = [x.shape, x.shape[1] * 2 + x.shape[0], T.stack([x.shape[2], x.shape[0]])]
    calls = []
    for s in [(0, 1, 2), (3, 4, 5)]:
        want = [np.array(s), np.array(s[1] * 2 + s[0]), np.array([s[2], s[0]])]
        calls.append(((np.zeros(s, "float32"),), want))
    agree(row, [x], outputs, calls)


@rows("make_vector")
def test_sizes_that_values_decide(row):
    """Sizes made of inputs, of elements and of sums, and vectors of these."""
    n, i, x = T.lscalar("n"), T.lvector("i"), variable("float64", 1)
    total = T.cast(x.sum(), "int64")
    ones = T.ones((total,), "float64")
    outputs = [
        T.ones((n, 2), "float64"),
        T.ones((i[0], i[1], n), "float64"),
        ones,
        T.alloc(x[0], T.cast(ones.sum(), "int64"), n),  # decided by what was decided by a value
        T.arange(total).reshape((i.max(), -1)),
        T.ones(T.stack([i.sum(), n]), "float64"),
        T.ones(T.stack([n, n + 1]) * 2, "float64"),
        T.stack([total, n, i.sum()]),
        T.as_tensor_variable([total, 1]),
    ]
    calls = []
    for k, u, a in [(0, [2, 3], [6.0]), (2, [0, 1], [1.0, 0.0]), (3, [5, 1], [2.0, 3.0, 5.0])]:
        u, a = np.array(u), np.array(a)
        s = int(a.sum())
        want = [np.ones((k, 2)), np.ones((u[0], u[1], k)), np.ones(s), np.full((s, k), a[0])]
        want += [np.arange(s).reshape(u.max(), -1), np.ones((u.sum(), k))]
        want += [np.ones((2 * k, 2 * k + 2)), np.array([s, k, u.sum()]), np.array([s, 1])]
        calls.append(((k, u, a), want))
    agree(row, [n, i, x], outputs, calls, 0)
    gradient = T.grad(T.alloc(x[0], total).sum(), x)
    assert snug.function([x], gradient)(np.array([2.0, 3.0])).tolist() == [5, 0]


@rows("concatenate")
def test_concatenate(row):
    for dtype in ALL:
        x, y = variable(dtype, 2), variable(dtype, 2)
        outputs = [T.concatenate([x, y, x], 0), T.concatenate([x, y], -1), T.stack([x, y], 1)]
        calls = []
        for shape in [(0, 3), (1, 1), (5, 33), (130, 257)]:
            a, b = sample(dtype, shape, key=1), sample(dtype, shape, key=2)
            want = [np.concatenate([a, b, a], 0), np.concatenate([a, b], -1), np.stack([a, b], 1)]
            for form in zip(layouts(a), reversed(layouts(b))):
                calls.append((form, [wide(w) for w in want]))
        agree(row, [x, y], outputs, calls, 0, what=dtype)
    x, y = variable("float64", 2, "x"), variable("float64", 2, "y")
    a, b = sample("float64", (2, 3), special=False), sample("float64", (1, 3), special=False)
    agree_gradient(row, T.concatenate([x, y, x]), [x, y], [a, b])


# ---- indexing

BOUNDS = [None, 0, 1, 2, 5, 6, 9, -1, -2, -6, -9]


@rows("slice")
def test_slice(row):
    """Python's rules, with bounds and steps given at the call."""
    start, stop, step = T.lscalars("start", "stop", "step")
    for dtype in ALL:
        x = variable(dtype, 2)
        outputs = [x[start:stop:step], x[:, start:stop:step], x[start::step, :stop]]
        a = sample(dtype, (6, 9))
        rng = np.random.default_rng(5)
        calls = []
        for _ in range(25):
            i, j = (int(v) for v in rng.choice(BOUNDS[1:], 2))
            k = int(rng.choice([1, 2, 3, 7, -1, -2, -5]))
            want = [a[i:j:k], a[:, i:j:k], a[i::k, :j]]
            calls.append(((a, i, j, k), [wide(w) for w in want]))
        agree(row, [x, start, stop, step], outputs, calls, 0, what=dtype)
    x, i = variable("float32", 2), T.lscalar("i")
    a = sample("float32", (6, 9))
    known, want = [], []
    for first in BOUNDS:
        for last in BOUNDS[::2]:
            for by in (None, 2, -1, -3):
                known.append(x[first:last:by, i])
                want.append(wide(a[first:last:by, -2]))
    agree(row, [x, i], known, [((a, -2), want)], 0, ["fast", "reference"])
    x = variable("float64", 2, "x")
    part = x[start:stop:step, ::-1]
    b = sample("float64", (4, 3), special=False)
    agree_gradient(row, part, [x, start, stop, step], [b, 3, 0, -2])
    agree_gradient(row, [x[i], x[:, -1]], [x, i], [b, 1])


@rows("slice_set", "slice_inc")
def test_slice_written(row):
    put = T.set_subtensor if row == "slice_set" else T.inc_subtensor
    start, stop, step = T.lscalars("start", "stop", "step")
    for dtype in ALL:
        if dtype == "bool" and row == "slice_inc":
            continue
        x, y, s = variable(dtype, 2), variable(dtype, 2), variable(dtype, 0)
        outputs = [put(x[start:stop:step], y), put(x[:, 1:-1:2], s)]
        a, t = sample(dtype, (8, 67), key=1), sample(dtype, (), key=3)
        calls = []
        for i, j, k in [(0, 8, 1), (1, 7, 3), (-1, 0, -2), (5, 2, 1), (-20, 20, 1)]:
            b = sample(dtype, a[i:j:k].shape, key=2)
            want = [a.copy(), a.copy()]
            if row == "slice_set":
                want[0][i:j:k], want[1][:, 1:-1:2] = b, t
            else:
                want = [wide(w) for w in want]
                want[0][i:j:k] += wide(b)
                want[1][:, 1:-1:2] += wide(t)
            calls.append(((a, b, t, i, j, k), [wide(w) for w in want]))
        agree(row, [x, y, s, start, stop, step], outputs, calls, 1, what=dtype)
    x, y = variable("float64", 2, "x"), variable("float64", 2, "y")
    a, b = sample("float64", (4, 3), special=False), sample("float64", (2, 3), special=False)
    agree_gradient(row, put(x[3:0:-2], y), [x, y], [a, b])


@rows("gather", "check_index")
def test_index_arrays(row):
    for dtype in ALL:
        x = variable(dtype, 3)
        for index in ("int8", "int32", "uint8", "int64") if dtype == "float32" else ("int64",):
            i, j, p = variable(index, 1), variable(index, 1), variable(index, 2)
            outputs = [x[i], x[i, j], x[:, p], x[i, :, j], x[1:, i], x[p, 0]]
            a = sample(dtype, (5, 5, 33))
            calls = []
            for n in (0, 1, 4):
                rng = np.random.default_rng(n)
                low = 0 if index.startswith("u") else -5
                u, v = (rng.integers(low, 5, n).astype(index) for _ in range(2))
                q = rng.integers(low, 5, (2, n)).astype(index)
                want = [a[u], a[u, v], a[:, q], a[u, :, v], a[1:, u], a[q, 0]]
                calls.append(((a, u, v, q), [wide(w) for w in want]))
            agree(row, [x, i, j, p], outputs, calls, 0, what=f"{dtype} by {index}")
    x, i = variable("float32", 2), T.lvector("i")
    a, u = sample("float32", (400, 300)), np.random.default_rng(0).integers(-400, 400, 1000)
    agree(row, [x, i], x[i], [((a, u), wide(a[u]))], 0, ["fast"], what="large")
    x, i, j = variable("float64", 2, "x"), T.lvector("i"), T.lvector("j")
    arguments = [
        sample("float64", (3, 3), special=False),
        np.array([0, -1, 0]),
        np.array([1, 2, 1]),
    ]
    agree_gradient("gather", [x[i, j], x[:, i]], [x, i, j], arguments)


@rows("scatter_set", "scatter_add")
def test_index_arrays_written(row):
    """Where an index stands twice, set takes the last value and inc adds both; NumPy's += does
    not, so numpy.add.at is the measure."""
    put = T.set_subtensor if row == "scatter_set" else T.inc_subtensor
    for dtype in ALL:
        if dtype == "bool" and row == "scatter_add":
            continue
        x, i, y, s = variable(dtype, 2), T.lvector("i"), variable(dtype, 2), variable(dtype, 0)
        outputs = [put(x[i], y), put(x[i, 0], s), put(x[:, i], y.T)]
        a, t = sample(dtype, (6, 6), -1, 1, False, 1), sample(dtype, (), -1, 1, False, 3)
        calls = []
        for u in ([], [2], [0, -1, 0, 3], [1, 1, 1, 1, 1]):
            u = np.array(u, "int64")
            b = sample(dtype, (len(u), 6), -1, 1, False, 2)
            want = [wide(a.copy()) for _ in range(3)]
            if row == "scatter_set":
                want[0][u], want[1][u, 0], want[2][:, u] = wide(b), wide(t), wide(b).T
            else:
                np.add.at(want[0], u, wide(b))
                np.add.at(want[1], (u, 0), wide(t))
                np.add.at(want[2], (slice(None), u), wide(b).T)
            calls.append(((a, u, b, t), want))
        agree(row, [x, i, y, s], outputs, calls, 6, scale=2.0, what=dtype)
    x, i, y = variable("float64", 2, "x"), T.lvector("i"), variable("float64", 2, "y")
    a, b = sample("float64", (4, 3), special=False), sample("float64", (3, 3), special=False)
    agree_gradient(row, put(x[i], y), [x, i, y], [a, np.array([0, 2, 2]), b])
    j = T.lmatrix("j")
    places = np.array([[0, 1], [0, 2], [0, 1]])
    agree_gradient(row, put(x[j, 1], y[:, :2]), [x, j, y], [a, places, b])
    f = snug.function([x, i, y], T.grad(T.sqr(put(x[i], y)).sum(), y))
    assert not f.memory(x=(4, 3), i=(3,), y=(3, 3)).note  # all sizes are known before it runs


@rows("nonzero")
def test_masks(row):
    for dtype in ALL:
        x, m = variable(dtype, 2), variable("bool", 2)
        outputs = [x[m], *T.nonzero(x), x[m[:, 0]], T.set_subtensor(x[m], T.cast(1, dtype))]
        calls = []
        for shape in [(0, 3), (1, 1), (5, 33), (100, 700)]:
            for share in (0.0, 0.3, 1.0):
                mask = np.random.default_rng(seed((shape, share))).random(shape) < share
                a = np.where(mask, sample(dtype, shape), 0).astype(DTYPES[dtype])
                filled = a.copy()
                filled[mask] = 1
                want = [a[mask], *np.nonzero(wide(a)), a[mask[:, 0]], filled]
                calls.append(((a, mask), [wide(w) for w in want]))
        agree(row, [x, m], outputs, calls, 0, what=dtype, modes=["fast", "reference"])
    x = variable("float64", 2, "x")
    agree_gradient(row, x[x > 0], [x], [sample("float64", (3, 4), special=False)])


# ---- generators


@rows("arange")
def test_arange(row):
    start, stop, step = T.lscalars("start", "stop", "step")
    outputs = [T.arange(stop), T.arange(start, stop, step)]
    outputs += [T.arange(start, stop, step, dtype=t) for t in ("int8", "uint16", "float32")]
    calls = []
    for i, j, k in [(0, 5, 1), (3, 3, 1), (5, 0, 1), (5, -4, -2), (-3, 50, 7), (0, 70000, 1)]:
        want = [np.arange(j), np.arange(i, j, k)]
        want += [np.arange(i, j, k).astype(t) for t in ("int8", "uint16", "float32")]
        calls.append(((i, j, k), want))
    agree(row, [start, stop, step], outputs, calls)


@rows("eye")
def test_eye(row):
    n, m = T.lscalars("n", "m")
    for dtype in ALL:
        outputs = [T.eye(n, m, k, dtype=dtype) for k in (0, 2, -1)]
        calls = [
            ((i, j), [np.eye(i, j, k) for k in (0, 2, -1)])
            for i, j in [(0, 0), (1, 1), (3, 5), (40, 7)]
        ]
        agree(row, [n, m], outputs, calls, 0, what=dtype)


def philox(key, counter):
    """Philox 4x32-10 in NumPy integers: four words for each counter."""
    mask = np.uint64(0xFFFFFFFF)
    counter = counter.astype("uint64")
    c = [counter & mask, counter >> np.uint64(32), np.zeros_like(counter), np.zeros_like(counter)]
    k = [np.uint64(key) & mask, np.uint64(key) >> np.uint64(32)]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ k[0], b & mask, (a >> np.uint64(32)) ^ c[3] ^ k[1]]
        c.append(a & mask)
        k = [(k[0] + np.uint64(0x9E3779B9)) & mask, (k[1] + np.uint64(0xBB67AE85)) & mask]
    return c


def test_philox_is_the_published_one():
    """The known answer of Random123 for counter and key 0."""
    words = [int(w[0]) for w in philox(0, np.array([0]))]
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@rows("random_uniform", "random_normal")
def test_random(row):
    """Determined by the seed in every mode, and distributed as it says."""
    method = "uniform" if row == "random_uniform" else "normal"
    for dtype in FLOATS:
        draws = {}
        for mode in ("fast", "reference"):
            stream = T.shared_randomstreams.RandomStreams(7)
            n = T.lscalar("n")
            x = getattr(stream, method)(size=(n, 3), dtype=dtype)
            assert row in ops_of([x])
            f = snug.function([n], x, mode=mode)
            draws[mode] = [f(k) for k in (0, 1, 1, 50, 3000)]
        for a, b in zip(draws["fast"], draws["reference"]):
            assert a.shape == b.shape
            # The angle 2 pi u of the normal draw is rounded, and the radius multiplies that.
            scale = 1.0 if method == "uniform" else 2 * math.pi * np.abs(wide(b)).max(initial=1)
            compare(a, wide(b), accuracy(dtype), f"{row} {dtype}", scale)
        once, again, many = draws["fast"][1], draws["fast"][2], wide(draws["fast"][4])
        assert not np.array_equal(once, again)
        error = 4 / math.sqrt(many.size)
        mean, deviation = (0.5, math.sqrt(1 / 12)) if method == "uniform" else (0, 1)
        assert abs(many.mean() - mean) < error and abs(many.std() - deviation) < error
        correlation = np.corrcoef(many.T) - np.eye(3)
        assert np.abs(correlation).max() < 4 / math.sqrt(len(many))
        if method == "uniform":
            assert many.min() >= 0 and many.max() <= 1


# ---- softmax, products, convolutions, factorisations


@rows("softmax", "log_softmax")
def test_softmax(row):
    for dtype in FLOATS:
        x = variable(dtype, 2)
        y = getattr(_core, row)(x)
        for shape in [(0, 3), (1, 1), (3, 5), (7, 67), (130, 1000)]:
            a = sample(dtype, shape, -9, 9, special=False)
            if a.size > 100:
                a[0, 1], a[1, 2] = np.inf, -np.inf
                a[2, 3] = np.nan
                a[3] = 60000 if dtype == "float16" else 80000
            shifted = wide(a) - wide(a).max(-1, initial=-np.inf, keepdims=True)
            total = np.exp(shifted).sum(-1, keepdims=True)
            want = np.exp(shifted) / total if row == "softmax" else shifted - np.log(total)
            # The exponent, down to -18, is rounded before exp; the sum once per element.
            ulps = 1 if accuracy(dtype) == 1 else 18 + (shape[1] if dtype == "float64" else 0)
            calls = [((b,), want) for b in layouts(a)]
            scale = 1.0 if row == "log_softmax" else None
            agree(row, [x], y, calls, ulps, what=dtype, scale=scale)
    x = variable("float64", 2, "x")
    a = sample("float64", (3, 4), special=False)
    agree_gradient(row, getattr(_core, row)(x), [x], [a])


def test_crossentropy():
    x, c, p = variable("float64", 2, "x"), T.ivector("c"), variable("float64", 2, "p")
    y = [
        T.nnet.categorical_crossentropy(T.nnet.softmax(x), c),
        T.nnet.categorical_crossentropy(T.nnet.softmax(x), p),
        T.nnet.binary_crossentropy(T.nnet.sigmoid(x), p).sum(axis=1),
    ]
    a = sample("float64", (5, 4), special=False)
    k = np.array([0, 3, 1, 1, 2], "int32")
    q = np.abs(sample("float64", (5, 4), special=False, key=1)) / 5
    logs = a - np.log(np.exp(a).sum(1, keepdims=True))
    s = sigmoid(a)
    want = [-logs[np.arange(5), k], -(q * logs).sum(1)]
    want.append(-(q * np.log(s) + (1 - q) * np.log1p(-s)).sum(1))
    agree("log", [x, c, p], y, [((a, k, q), want)], 16)
    agree_gradient("log", y, [x, c, p], [a, k, q], 1e-5)
    # Far from the classes nothing overflows and nothing is lost.
    big = a * 1000
    f = snug.function([x, c], y[0])
    shifted = big - big.max(1, keepdims=True)
    exact_loss = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(5), k]
    np.testing.assert_allclose(f(big, k), exact_loss, rtol=1e-14)


def product_error(dtype, inner):
    """ULPs of the sum of absolute products: additions in the dtype, or in float32 for 16 bits."""
    return 1 if dtype in ("float16", "bfloat16") else inner + 1


@rows("dot")
def test_dot(row):
    """Integer products wrap, and products of bools are or of and, as in NumPy."""
    for dtype in ALL:
        x, y, v = variable(dtype, 2), variable(dtype, 2), variable(dtype, 1)
        outputs = [T.dot(x, y), T.dot(x, v), T.dot(v, y), T.dot(y.T, x.T)]
        for m, k, n in [(0, 3, 2), (2, 0, 3), (1, 1, 1), (3, 5, 4), (17, 33, 65)]:
            a, b = (sample(dtype, s, special=dtype in DISCRETE) for s in ((m, k), (k, n)))
            u = sample(dtype, (k,), special=dtype in DISCRETE)
            want = [wide(a) @ wide(b), wide(a) @ wide(u), wide(u) @ wide(b)]
            want.append(want[0].T)
            scale = 16.0 * k if dtype in FLOATS else None
            calls = [((p, q, u), want) for p, q in zip(layouts(a), reversed(layouts(b)))]
            agree(row, [x, y, v], outputs, calls, product_error(dtype, k), scale=scale, what=dtype)
    x, y = variable("float32", 2), variable("float32", 2)
    a, b = (
        sample("float32", (300, 400), special=False),
        sample("float32", (400, 200), special=False),
    )
    agree(row, [x, y], T.dot(x, y), [((a, b), wide(a) @ wide(b))], 4, ["fast"], 16.0 * 400, "large")
    x, y = variable("float64", 2, "x"), variable("float64", 2, "y")
    a, b = sample("float64", (2, 3), special=False), sample("float64", (3, 2), special=False)
    agree_gradient(row, T.dot(x, y), [x, y], [a, b])


@rows("batched_dot")
def test_batched_dot(row):
    for dtype in ALL:
        x, y = variable(dtype, 3), variable(dtype, 3)
        for batch, m, k, n in [(0, 2, 3, 2), (2, 2, 0, 3), (1, 1, 1, 1), (3, 5, 7, 33)]:
            a, b = (
                sample(dtype, s, special=dtype in DISCRETE) for s in ((batch, m, k), (batch, k, n))
            )
            turned = np.ascontiguousarray(a[::-1, :, ::-1])[::-1, :, ::-1]
            want = wide(a) @ wide(b)
            calls = [((p, q), want) for p, q in ((a, b), (np.asfortranarray(a), b), (turned, b))]
            scale = 16.0 * k if dtype in FLOATS else None
            ulps = product_error(dtype, k)
            agree(row, [x, y], T.batched_dot(x, y), calls, ulps, scale=scale, what=dtype)
    x, y = variable("float64", 3, "x"), variable("float64", 3, "y")
    a, b = sample("float64", (2, 2, 3), special=False), sample("float64", (2, 3, 1), special=False)
    agree_gradient(row, T.batched_dot(x, y), [x, y], [a, b])


def convolve(x, w, pad, stride, dilation, flip, groups):
    """The definition, in float64."""
    x = np.pad(wide(x), ((0, 0), (0, 0), (pad[0], pad[0]), (pad[1], pad[1])))
    w = wide(w)[:, :, ::-1, ::-1] if flip else wide(w)
    rows, columns = (
        (x.shape[2 + i] - (w.shape[2 + i] - 1) * dilation[i] - 1) // stride[i] + 1 for i in (0, 1)
    )
    out = np.zeros((x.shape[0], w.shape[0], rows, columns))
    per = w.shape[0] // groups
    for g in range(groups):
        xs = x[:, g * w.shape[1] : (g + 1) * w.shape[1]]
        ws = w[g * per : (g + 1) * per]
        for r in range(w.shape[2]):
            for c in range(w.shape[3]):
                top, left = r * dilation[0], c * dilation[1]
                part = xs[
                    :,
                    :,
                    top : top + (rows - 1) * stride[0] + 1 : stride[0],
                    left : left + (columns - 1) * stride[1] + 1 : stride[1],
                ]
                out[:, g * per : (g + 1) * per] += np.einsum("bihw,oi->bohw", part, ws[:, :, r, c])
    return out


CONVOLUTIONS = [  # pad, stride, dilation, flip, groups
    ((0, 0), (1, 1), (1, 1), True, 1),
    ((1, 2), (1, 1), (1, 1), False, 1),
    ((0, 1), (2, 3), (1, 1), True, 1),
    ((2, 2), (1, 2), (2, 1), True, 1),
    ((1, 1), (1, 1), (1, 1), False, 2),
    ((1, 1), (2, 1), (1, 2), True, 4),
]


@rows("conv2d", "conv2d_grad_input", "conv2d_grad_weight")
def test_conv2d(row):
    for dtype in FLOATS if row == "conv2d" else ["float64"]:
        for pad, stride, dilation, flip, groups in CONVOLUTIONS:
            x, w = variable(dtype, 4, "x"), variable(dtype, 4, "w")
            y = T.nnet.conv2d(
                x,
                w,
                border_mode=pad,
                subsample=stride,
                filter_flip=flip,
                filter_dilation=dilation,
                num_groups=groups,
            )
            a = sample(dtype, (2, 4, 9, 8), special=False, key=1)
            b = sample(dtype, (4, 4 // groups, 3, 2), special=False, key=2)
            if row == "conv2d":
                want = convolve(a, b, pad, stride, dilation, flip, groups)
                inner = b[0].size
                turned = np.ascontiguousarray(a[:, :, ::-1, ::-1])[:, :, ::-1, ::-1]
                calls = [((p, b), want) for p in (a, np.asfortranarray(a), turned)]
                none = np.zeros((0, *a.shape[1:]), a.dtype)
                calls.append(((none, b), convolve(none, b, pad, stride, dilation, flip, groups)))
                agree(row, [x, w], y, calls, product_error(dtype, inner), scale=16.0 * inner)
            else:
                cost = T.sum(T.sqr(y))
                gradients = T.grad(cost, [x, w])
                which = 0 if row == "conv2d_grad_input" else 1
                assert row in ops_of([gradients[which]])
                small = [a[:1, :, :5, :4], b]
                for mode in MODES:
                    found = snug.function([x, w], gradients, mode=mode)(*small)[which]
                    rng = np.random.default_rng(1)
                    for _ in range(12):
                        at = tuple(int(rng.integers(0, s)) for s in found.shape)
                        sides = []
                        for step in (1e-5, -1e-5):
                            moved = [small[0].copy(), small[1].copy()]
                            moved[which][at] += step
                            z = convolve(*moved, pad, stride, dilation, flip, groups)
                            sides.append((z**2).sum())
                        want = (sides[0] - sides[1]) / 2e-5
                        assert abs(found[at] - want) <= 1e-5 * max(1, abs(want)), (row, mode, at)
                if (pad, groups) == ((1, 2), 1):  # and their own gradients
                    agree_gradient(row, gradients[which], [x, w], [small[0][:, :, :3, :2], b], 1e-4)


def positive(dtype, n):
    a = wide(sample(dtype, (n, n), -1, 1, False))
    return (a @ a.T + n * np.eye(n)).astype(dtype)


@rows("cholesky")
def test_cholesky(row):
    for dtype in ("float32", "float64"):
        x = variable(dtype, 2)
        outputs = [T.slinalg.cholesky(x), T.slinalg.cholesky(x, lower=False)]
        for n in (0, 1, 5, 33):
            a = positive(dtype, n)
            low = np.linalg.cholesky(wide(a)) if n else np.zeros((0, 0))
            agree(row, [x], outputs, [((b,), [low, low.T]) for b in layouts(a)], 2 * n + 4, scale=n)
    x = variable("float64", 2, "x")
    symmetric = T.dot(x, x.T) + 3 * T.eye(3, dtype="float64")
    a = sample("float64", (3, 3), -1, 1, False)
    agree_gradient(row, T.slinalg.cholesky(symmetric), [x], [a], 1e-5)


@rows("solve")
def test_solve(row):
    for dtype in ("float32", "float64"):
        for kind in ("gen", "pos", "lower", "upper"):
            for transposed in (False, True):
                x, y, v = variable(dtype, 2), variable(dtype, 2), variable(dtype, 1)
                outputs = [T.slinalg.solve(x, b, assume_a=kind, trans=transposed) for b in (y, v)]
                for n in (0, 1, 4, 33):
                    a, b, u = positive(dtype, n), sample(dtype, (n, 3), special=False), None
                    u = sample(dtype, (n,), special=False)
                    read = {"lower": np.tril, "upper": np.triu}.get(kind, np.asarray)(wide(a))
                    read = read.T if transposed else read
                    want = [np.linalg.solve(read, wide(b)), np.linalg.solve(read, wide(u))]
                    calls = [((p, b, u), want) for p in layouts(a)]
                    agree(row, [x, y, v], outputs, calls, 8 * (n + 1), scale=1.0, what=kind)
    for kind in ("gen", "lower"):
        x, y = variable("float64", 2, "x"), variable("float64", 2, "y")
        a, b = positive("float64", 3), sample("float64", (3, 2), special=False)
        agree_gradient(row, T.slinalg.solve(x, y, assume_a=kind), [x, y], [a, b], 1e-5)


# ---- leaves and loops


@rows("input", "constant", "shared")
def test_leaves(row):
    for dtype in ALL:
        for shape in [(), (0, 3), (1, 1), (5, 33)]:
            a = sample(dtype, shape)
            forms = layouts(a) if len(shape) == 2 else [a]
            for form in forms:
                if row == "input":
                    x = variable(dtype, len(shape))
                    agree(row, [x], [x, x], [((form,), [wide(a)] * 2)], 0, what=dtype)
                else:
                    x = T.constant(form) if row == "constant" else snug.shared(form)
                    assert x.dtype == dtype
                    agree(row, [], [x, x], [((), [wide(a)] * 2)], 0, what=dtype)


@rows("loop")
def test_loop(row):
    for dtype in NUMBERS:
        x, s, n = variable(dtype, 2), variable(dtype, 1), T.lscalar("n")
        states, outputs = snug.loop(
            lambda i, e, h: ([T.maximum(h[0], e[0])], [h[0] + e[0], T.cast(i, "int32")]), [x], [s]
        )
        doubled, _ = snug.loop(lambda i, e, h: ([h[0] + h[0]], []), None, [s], n)
        mapped, _ = snug.map(lambda e, two: e[::-1] * two, x, [T.cast(2, dtype)])
        results = [*states, *outputs, *doubled, mapped]
        calls = []
        for shape, count in [((0, 3), 0), ((1, 1), 1), ((5, 33), 3)]:
            a, b = sample(dtype, shape, key=1), sample(dtype, shape[1:], key=2)
            before, sums = [b], []
            for line in a:
                sums.append(wide(before[-1]) + wide(line))
                before.append(np.maximum(before[-1], line))
            times = wide(b)
            for _ in range(count):
                times = wide((times + times).astype(DTYPES[dtype]))
            want = [
                wide(before[-1]),
                np.array(sums).reshape(shape),
                np.arange(len(a)),
                times,
                wide(a)[:, ::-1] * wide(np.array(2, DTYPES[dtype])),
            ]
            calls.append(((a, b, count), want))
        agree(row, [x, s, n], results, calls, 1, what=dtype)
    x, s = variable("float64", 2, "x"), variable("float64", 1, "s")
    states, outputs = snug.loop(lambda i, e, h: ([T.tanh(h[0] + e[0])], [h[0] * e[0]]), [x], [s])
    arguments = [sample("float64", (3, 2), special=False), sample("float64", (2,), special=False)]
    agree_gradient(row, [*states, *outputs], [x, s], arguments)


def test_check_mode_takes_overflow_as_infinity():
    x = variable("float32", 1)
    f = snug.function([x], T.exp(x), mode="check")
    assert f(np.array([1.0, 200.0], "float32"))[1] == np.inf


def test_every_row_has_a_sample():
    for path in Path(__file__).parent.glob("test_*.py"):  # also those that this run leaves out
        importlib.import_module(path.stem)
    assert sampled == set(_core.op_docs())


# ---- sizes that change make no new code


def counters(f):
    return {name: f.counter(name) for name in ("kernels", "programs", "kernels_compiled")}


def test_bounds_of_slices_make_no_new_code():
    x, k = variable("float32", 2), T.lscalar("k")
    f = snug.function([x, k], T.exp(x[:k]).sum(axis=0) + x[k:, 0].sum())
    a = sample("float32", (1000, 3), special=False)
    f(a, 1)
    before = counters(f)
    for count in range(1000):
        np.testing.assert_allclose(
            f(a, count), np.exp(wide(a[:count])).sum(0) + wide(a[count:, 0]).sum(), rtol=1e-5
        )
    assert counters(f) == before


def test_ragged_batches_make_no_new_code():
    x, w = variable("float32", 2), snug.shared(np.ones((3, 2), "float32"))
    f = snug.function([x], T.tanh(T.dot(x, w)).sum(), updates=[(w, w * 0.999)])
    f(np.ones((1, 3), "float32"))
    before = counters(f)
    for n in range(200):
        f(np.ones((n % 67, 3), "float32"))
    assert counters(f) == before


def test_steady_shapes_make_no_new_plan():
    x = variable("float32", 2)
    f = snug.function([x], T.exp(x).sum(axis=1) + T.dot(x, x.T).sum(axis=0))
    shapes = [(4, 5), (6, 7)]
    for shape in shapes:
        f(np.ones(shape, "float32"))
    before = (f.counter("plans"), f.counter("instances"))
    for _ in range(100):
        for shape in shapes:
            f(np.ones(shape, "float32"))
    assert (f.counter("plans"), f.counter("instances")) == before
