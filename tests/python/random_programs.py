"""Random typed programs over every row of the op table, each step with its value by NumPy.

A row has a step: a function that gets the program and adds to it. Elementwise rows and reductions
have theirs from the samples of the row (its NumPy expression and ranges); for the others it is one
call of `on`. Rows that no program can have are in NO_STEP with the reason."""

import importlib
import math

import numpy as np

import snug
import snug.tensor as T
from snug import _core

SIZES = [0, 1, 2, 3, 5, 17, 40]
LIMIT = 100000  # elements of a value
ROWS = _core.op_rows()

STEPS = {}
NO_STEP = {}
COMPOSITES = {}  # steps of functions that are made of several rows, by their names


class Skip(Exception):
    """A step does not fit what was picked."""


class Item:
    """A value of the program. It is exact if no rounding went into it: only then may what jumps
    (comparisons, rounding, places of extremes) look at it."""

    def __init__(self, expression, value, exact):
        self.x, self.v, self.exact = expression, np.asarray(value), exact


class Program:
    """A list of items that grows by random steps."""

    def __init__(self, seed, rows=None):
        self.rng = np.random.default_rng(seed)
        self.inputs, self.values, self.items, self.log = [], [], [], []
        self.sizes = self.rng.choice(SIZES, 3)
        for _ in range(self.rng.integers(1, 4)):
            self.add_input()
        for row in rows if rows is not None else self.random_rows():
            self.step(row)

    def random_rows(self):
        loops = sorted(STEPS.keys() & LOOPS)
        others = sorted((STEPS.keys() - LOOPS) | COMPOSITES.keys())
        for _ in range(self.rng.integers(2, 12)):
            yield str(self.rng.choice(loops if self.rng.random() < 0.5 else others))

    def add_input(self, ndim=None, dtype=None):
        ndim = int(self.rng.integers(0, 4)) if ndim is None else ndim
        kinds = ["float64", "float64", "float32", "int32", "int8", "bool"]
        dtype = str(self.rng.choice(kinds)) if dtype is None else dtype
        shape = tuple(int(s) for s in self.rng.choice(self.sizes, ndim))
        value = self.sample(dtype, shape)
        x = T.TensorType(dtype, (False,) * ndim)(f"x{len(self.inputs)}")
        self.inputs.append(x)
        self.values.append(value)
        self.note(f"{x} = {dtype}{shape}", x, value, True)

    def sample(self, dtype, shape):
        if dtype == "bool":
            value = self.rng.random(shape) < 0.5
        elif dtype.startswith("float"):
            value = self.rng.normal(size=shape)
        else:
            value = self.rng.integers(-5, 6, shape)
        return np.asarray(value).astype(dtype)

    def note(self, text, expression, value, exact):
        """Adds an item. What NumPy has may be wider than the result's dtype."""
        value = np.asarray(value)
        with np.errstate(all="ignore"):
            value = value.astype(expression.dtype)
        if value.size > LIMIT or value.ndim > 4:
            raise Skip
        if value.dtype.kind in "fc" and not np.all(np.abs(value) < 1e6):  # nan and inf are not
            raise Skip
        self.log.append(f"{len(self.items)}: {text}")
        self.items.append(Item(expression, value, exact))

    def pick(self, accept):
        """The number of a random item; a new input if none fits."""
        fitting = [k for k, item in enumerate(self.items) if accept(item)]
        if not fitting:
            raise Skip
        return int(self.rng.choice(fitting))

    def step(self, row):
        """Tries to add a step of the row; gives up if nothing fits."""
        for _ in range(3):
            try:
                (STEPS.get(row) or COMPOSITES[row])(self)
                return True
            except Skip:
                continue
        return False

    def axis(self, v):
        return int(self.rng.integers(0, v.ndim))


def on(row, accept, build, exact=None, steps=STEPS):
    """The step of a row: build(program, x, v) makes (expression, value) of an item that accept(v)
    takes. `exact`: whether the result is; None: as the item is."""

    def step(program):
        jumps = row in JUMPS
        k = program.pick(lambda item: accept(item.v) and (item.exact or not jumps))
        item = program.items[k]
        with np.errstate(all="ignore"):
            expression, value = build(program, item.x, item.v)
        kept = item.exact if exact is None else exact
        program.note(f"{row} of {k}", expression, value, kept)

    steps[row] = step


# ---- elementwise rows and reductions, from their samples

LOOPS = {n for n, r in ROWS.items() if {"elementwise", "reduction"} & set(r["traits"])}
# Rows whose results jump: of an operand that was rounded in another way they say something else.
JUMPS = {"all", "any", "argmax", "argmin", "cast", "ceil", "eq", "floor", "floor_div", "ge", "gt"}
JUMPS |= {"argsort", "argtopk", "max_pool_take", "max_unpool", "polygamma", "searchsorted"}
JUMPS |= {"isinf", "isnan", "le", "lt", "mod", "ne", "nonzero", "round", "sign", "trunc"}
# Elementwise rows that pass on values of their operands and round nothing.
EXACT = {"abs", "maximum", "minimum", "neg", "stop_gradient", "switch"}
MODULES = {"np": np, "math": math}
for _name in ("scipy.special", "scipy"):
    try:
        MODULES["scipy"] = importlib.import_module(_name)
    except ImportError:
        continue


def inside(row, x, v):
    """An operand in the range of the row's samples: as it is, or clipped."""
    low, high = ROWS[row]["floats" if v.dtype.kind == "f" else "ints"]
    if v.dtype == bool or not v.size or (np.all(v >= low) and np.all(v <= high)):
        return x, v
    if v.dtype.kind != "f":
        low, high = math.ceil(low), math.floor(high)
    kind = v.dtype.type
    return T.clip(x, kind(low), kind(high)), np.clip(v, kind(low), kind(high))


def by_reference(row, operands):
    """The value of an elementwise row that has no NumPy expression, by the reference interpreter;
    its conformance tests say what that is worth."""
    inputs = [T.TensorType(str(a.dtype), (False,) * a.ndim)() for a in operands]
    f = snug.function(inputs, getattr(_core, row)(*inputs), mode="reference")
    return f(*operands)


DEFAULT_RANGE = (-2.0, 2.0), (-5, 5)


def elementwise(row):
    info = ROWS[row]
    limited = (info["floats"], info["ints"]) != DEFAULT_RANGE

    def numpy_value(result, operands):
        shape = np.broadcast_shapes(*(a.shape for a in operands))
        if 0 in shape:  # vectorised functions of Python refuse it
            return np.zeros(shape)
        first = [operands.pop(0)] if row == "switch" else []
        common = _core.upcast(*(str(a.dtype) for a in operands))
        if result.startswith("float") or common.startswith("float"):
            common = "float64"
        operands = first + [o.astype(common) for o in operands]
        if not info["numpy"]:
            return by_reference(row, operands)
        a, b, c = (operands + [None] * 3)[:3]
        return eval(info["numpy"], MODULES, {"a": a, "b": b, "c": c})

    def step(program):
        jumps = row in JUMPS
        accept = lambda item: item.exact or not jumps
        first = program.pick(lambda i: accept(i) and (i.v.dtype.kind == "f" or info["integers"]))
        shape = program.items[first].v.shape
        numbers = [first]
        for _ in range(info["inputs"] - 1):
            fits = lambda item: accept(item) and item.v.shape in (shape, ())
            numbers.append(program.pick(fits))
        operands = [(program.items[k].x, program.items[k].v) for k in numbers]
        exact = all(program.items[k].exact for k in numbers)
        for clipped in (limited, True):
            if clipped and row != "switch":
                operands = [inside(row, x, v) for x, v in operands]
            try:
                expression = getattr(_core, row)(*(x for x, _ in operands))
            except TypeError:  # a dtype that the row does not take
                raise Skip from None
            with np.errstate(all="ignore"):
                value = np.asarray(numpy_value(expression.dtype, [v for _, v in operands]))
            exact &= row in EXACT or expression.dtype[0] in "biu"
            text = f"{row}({', '.join(map(str, numbers))}){' clipped' if clipped else ''}"
            if value.dtype.kind != "f" or np.all(np.isfinite(value)) or clipped:
                program.note(text, expression, value, exact)
                return

    STEPS[row] = step


def reduction(row):
    numpy = ROWS[row]["numpy"]

    def build(program, x, v):
        axis = program.axis(v) if program.rng.random() < 0.7 else None
        keepdims = bool(program.rng.random() < 0.5)
        reduced = v.size if axis is None else v.shape[axis]
        if reduced == 0 and row not in ("sum", "prod", "any", "all"):
            raise Skip
        wide = v.astype("float64") if v.dtype.kind == "f" else v
        value = np.asarray(eval(numpy, MODULES, {"a": wide, "axis": axis}))
        if keepdims:
            value = value.reshape([1] * v.ndim) if axis is None else np.expand_dims(value, axis)
        return getattr(T, row)(x, axis=axis, keepdims=keepdims), value

    rounds = row in ("sum", "prod")
    on(row, lambda v: v.ndim > 0, build, None if not rounds else False)


for _row, _info in ROWS.items():
    if _info["numpy"] and "reduction" in _info["traits"] and "axis" in _info["numpy"]:
        reduction(_row)
    elif "elementwise" in _info["traits"] and hasattr(_core, _row):
        elementwise(_row)

# ---- what an item must be


def all_of(*tests):
    return lambda v: all(test(v) for test in tests)


def floats(v):
    return v.dtype.kind == "f"


def numbers(v):
    return v.dtype != bool


def dims(low, high=4):
    return lambda v: low <= v.ndim <= high


def filled(v):
    return v.ndim > 0 and v.shape[0] > 0


matrix = all_of(floats, dims(2, 2))

# ---- leaves and creation


def leaf(make):
    def step(program):
        dtype = str(program.rng.choice(["float64", "float32", "int32"]))
        shape = tuple(int(s) for s in program.rng.choice(program.sizes, program.rng.integers(0, 3)))
        value = program.sample(dtype, shape)
        program.note(f"{make.__name__} of {dtype}{shape}", make(value), value, True)

    return step


STEPS["input"] = lambda program: program.add_input()
STEPS["constant"] = leaf(T.constant)
STEPS["shared"] = leaf(snug.shared)


def arange_step(program, x, v):
    start, step = int(program.rng.integers(-3, 3)), int(program.rng.choice([1, 2, -1]))
    stop, value = start + x.shape[0] * step, np.arange(start, start + v.shape[0] * step, step)
    return T.arange(start, stop, step), value


def eye_step(program, x, v):
    k = int(program.rng.integers(-2, 3))
    return T.eye(x.shape[0], 5, k, dtype=str(v.dtype)), np.eye(v.shape[0], 5, k)


def drawn(method):
    """What is drawn differs from call to call; that it is inside the range does not."""

    def build(program, x, v):
        draw = getattr(_core.RandomStream(3), method)((x.shape[0],), dtype="float32")
        return T.lt(abs(draw), 50), np.full(v.shape[0], True)

    return build


on("arange", dims(1), arange_step, True)
on("eye", all_of(dims(1), numbers), eye_step, True)
on("random_uniform", dims(1), drawn("uniform"), True)
on("random_normal", dims(1), drawn("normal"), True)

# ---- shapes


def dimshuffle_step(program, x, v):
    order = [int(i) for i in program.rng.permutation(v.ndim)]
    if program.rng.random() < 0.3:
        return x.dimshuffle("x", *order), v.transpose(order)[None]
    return x.dimshuffle(*order), v.transpose(order)


def reshape_step(program, x, v):
    if v.size == 0 or program.rng.random() < 0.5:
        return x.flatten(), v.flatten()
    return x.reshape((-1, x.shape[v.ndim - 1])), v.reshape((-1, v.shape[-1]))


def broadcast_step(program, x, v):
    n = int(program.rng.integers(0, 4))
    sizes = [n, *(x.shape[k] for k in range(v.ndim))]
    return T.broadcast_to(x, sizes), np.broadcast_to(v, (n, *v.shape))


def rebroadcast_step(program, x, v):
    first = T.addbroadcast(x[:1], 0)
    return first + x, (v[:1] + v).astype(v.dtype)


def concatenate_step(program, x, v):
    axis = program.axis(v)
    part = T.concatenate([x, x[::-1]], axis=axis)
    return part, np.concatenate([v, v[::-1]], axis=axis)


def make_vector_step(program, x, v):
    return T.ones((x.shape[0] * 2 + 1, 3), "float64"), np.ones((v.shape[0] * 2 + 1, 3))


on("dimshuffle", dims(1, 3), dimshuffle_step)
on("reshape", dims(1), reshape_step)
on("broadcast_to", dims(0, 3), broadcast_step)
on("rebroadcast", all_of(filled, numbers), rebroadcast_step, False)
on("concatenate", dims(1), concatenate_step)
on("shape", dims(1), lambda p, x, v: (x.shape, np.array(v.shape)), True)
on("make_vector", dims(1), make_vector_step, True)

# ---- indexing


def random_slice(program, n):
    low, high = sorted(int(i) for i in program.rng.integers(-n, n + 1, 2))
    step = int(program.rng.choice([1, 1, 2, -1]))
    return slice(low, high, step) if step > 0 else slice(high, low, step)


def random_indices(program, n, repeated=True):
    if not repeated:
        return program.rng.permutation(n)[: int(program.rng.integers(0, 6))]
    return program.rng.integers(-n, n, int(program.rng.integers(0, 6)))


def slice_step(program, x, v):
    s = random_slice(program, v.shape[0])
    return x[s], v[s]


def put(function, add, indices):
    """set_subtensor or inc_subtensor with a number, at an index of the first axis."""

    def build(program, x, v):
        at = indices(program, v.shape[0])
        number = v.dtype.type(3)
        index = at if isinstance(at, slice) else T.constant(at.astype("int64"))
        value = v.copy()
        if add:
            np.add.at(value, at, number)
        else:
            value[at] = number
        return function(x[index], number), value

    return build


def gather_step(program, x, v):
    at = random_indices(program, v.shape[0])
    return x[T.constant(at.astype("int64"))], v[at]


def check_index_step(program, x, v):
    at = random_indices(program, v.shape[0])
    positive = np.where(at < 0, at + v.shape[0], at)
    return T.arange(x.shape[0])[T.constant(at.astype("int64"))], positive


def nonzero_step(program, x, v):
    k = program.axis(v)
    return T.nonzero(x)[k], np.nonzero(v)[k]


on("slice", filled, slice_step)
on("slice_set", all_of(filled, numbers), put(T.set_subtensor, False, random_slice))
on("slice_inc", all_of(filled, numbers), put(T.inc_subtensor, True, random_slice), False)
on("gather", filled, gather_step)
on("check_index", filled, check_index_step, True)
on(
    "scatter_set",
    all_of(filled, numbers),
    put(T.set_subtensor, False, lambda p, n: random_indices(p, n, False)),
)
on("scatter_add", all_of(filled, numbers), put(T.inc_subtensor, True, random_indices), False)
on("nonzero", dims(1, 2), nonzero_step, True)

# ---- linear algebra and networks


def square(x, v):
    """A positive definite matrix of any matrix, whose eigenvalues are apart."""
    wide = v.astype("float64")
    steps = np.diag(2.0 + np.arange(len(v)))
    e = T.dot(x, x.T) / v.dtype.type(1 + v.shape[1]) + steps.astype(v.dtype)
    return T.cast(e, str(v.dtype)), wide @ wide.T / (1 + v.shape[1]) + steps


def cholesky_step(program, x, v):
    a, b = square(x, v)
    return T.slinalg.cholesky(a), np.linalg.cholesky(b)


def solve_step(program, x, v):
    a, b = square(x, v)
    return T.slinalg.solve(a, x), np.linalg.solve(b, v.astype("float64"))


def dot_step(program, x, v):
    wide = v.astype("float64") if v.dtype.kind == "f" else v
    return T.dot(x, x.T), wide @ wide.T


def batched_dot_step(program, x, v):
    wide = v.astype("float64") if v.dtype.kind == "f" else v
    return T.batched_dot(x, x.dimshuffle(0, 2, 1)), wide @ wide.transpose(0, 2, 1)


def image(x, v, axes):
    """A matrix as an image, and a filter along its columns."""
    ones = ["x"] * axes
    filters = np.array([2.0, -1.0], v.dtype).reshape((1,) * (axes + 1) + (2,))
    return x.dimshuffle(*ones, 0, 1), T.constant(filters)


def correlate(v, w):
    return w[0] * v[:, :-1] + w[1] * v[:, 1:]


def conv_step(axes):
    def build(program, x, v):
        images, filters = image(x, v, axes)
        y = getattr(T.nnet, f"conv{axes}d")(images, filters, filter_flip=False)
        return y[(0,) * axes], correlate(v, [2.0, -1.0])

    return build


def conv_grad_input_step(axes):
    def build(program, x, v):
        images, filters = image(x, v, axes)
        y = getattr(T.nnet, f"conv{axes}d")(images, filters, filter_flip=False)
        dy = 2 * correlate(v.astype("float64"), [2.0, -1.0])
        dx = np.pad(2.0 * dy, ((0, 0), (0, 1))) - np.pad(dy, ((0, 0), (1, 0)))
        return T.grad(T.sqr(y).sum(), images)[(0,) * axes], dx

    return build


def conv_grad_weight_step(axes):
    def build(program, x, v):
        images, filters = image(x, v, axes)
        weights = snug.shared(filters.data)
        y = getattr(T.nnet, f"conv{axes}d")(images, weights, filter_flip=False)
        wide = v.astype("float64")
        dy = 2 * correlate(wide, [2.0, -1.0])
        found = T.grad(T.sqr(y).sum(), weights)[(0,) * (axes + 1)]
        return found, [(dy * wide[:, :-1]).sum(), (dy * wide[:, 1:]).sum()]

    return build


def tiles(v):
    """The windows of two columns of a matrix: (rows, windows, 2)."""
    count = v.shape[1] // 2
    return v[:, : 2 * count].reshape(v.shape[0], count, 2)


def max_pool_step(program, x, v):
    return _core.pool(x, (1, 2)), tiles(v).max(2)


def max_unpool_step(program, x, v):
    y = _core.pool(x, (1, 2))
    parts, gradient = tiles(v), np.zeros(v.shape)
    first = parts.argmax(2)[..., None]
    spread = np.zeros(parts.shape)
    np.put_along_axis(spread, first, 2 * parts.max(2, keepdims=True).astype("float64"), 2)
    gradient[:, : 2 * parts.shape[1]] = spread.reshape(v.shape[0], -1)
    return T.grad(T.sqr(y).sum(), x), gradient


def max_pool_take_step(program, x, v):
    dy = T.TensorType(x.dtype, (False, False))()
    taken = T.Lop(T.Lop(_core.pool(x, (1, 2)), x, dy), dy, x * 3)
    return taken, 3 * tiles(v).max(2).astype("float64")


def average_pool_step(program, x, v):
    return _core.pool(x, (1, 2), mode="average_exc_pad"), tiles(v.astype("float64")).mean(2)


def average_pool_grad_step(program, x, v):
    y = _core.pool(x, (1, 2), mode="sum")
    sums, gradient = tiles(v.astype("float64")).sum(2), np.zeros(v.shape)
    gradient[:, : 2 * sums.shape[1]] = 2 * np.repeat(sums, 2, 1)
    return T.grad(T.sqr(y).sum(), x), gradient


def pictures(v):
    return v.shape[0] > 0 and v.shape[1] > 1


def softmax_step(logarithm):
    def build(program, x, v):
        wide = v.astype("float64")
        shifted = wide - wide.max(-1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
        if logarithm:
            return T.nnet.logsoftmax(x), logs
        return T.nnet.softmax(x), np.exp(logs)

    return build


def standardize_step(program, x, v):
    wide = v.astype("float64")
    ones, zeros = T.ones_like(x[0]), T.zeros_like(x[0])
    y = T.nnet.bn.batch_normalization_train(x, ones, zeros, epsilon=0.1)[0]
    return y, (wide - wide.mean(0)) / np.sqrt(wide.var(0) + 0.1)


def loop_step(program, x, v):
    _, (sums,) = snug.loop(
        lambda i, e, h: ([h[0] + e[0]], [h[0] + e[0]]), [x], [T.zeros_like(x[0])]
    )
    return sums, np.cumsum(v, axis=0)


def cast_step(program, x, v):
    dtype = str(program.rng.choice(["int16", "int64", "float32", "float64", "bool"]))
    return T.cast(x, dtype), v.astype(dtype)


def invariant(function, numpy):
    """A function of the positive definite matrix of an item."""

    def build(program, x, v):
        a, b = square(x, v)
        return function(a), numpy(b)

    return build


def rebuilt(function):
    """A factorisation put together again, since its parts have arbitrary signs."""

    def build(program, x, v):
        a, b = square(x, v)
        return T.cast(function(a), a.dtype), b

    return build


def from_eigh(a):
    values, vectors = T.nlinalg.eigh(a)
    return T.dot(vectors * values, vectors.T)


def from_svd(a):
    u, s, v = T.nlinalg.svd(a)
    return T.dot(u * s, v)


def lstsq_step(program, x, v):
    a, b = square(x, v)
    return T.nlinalg.lstsq(a, x)[0], np.linalg.solve(b, v.astype("float64"))


def exponential(a):
    values, vectors = np.linalg.eigh(a)
    return vectors * np.exp(values) @ vectors.T


on("inverse", matrix, invariant(lambda a: T.nlinalg.matrix_inverse(a), np.linalg.inv), False)
on("det", matrix, invariant(lambda a: T.nlinalg.det(a), np.linalg.det), False)
on(
    "slogdet",
    matrix,
    invariant(lambda a: T.nlinalg.slogdet(a)[1], lambda b: np.linalg.slogdet(b)[1]),
    False,
)
on("eigvalsh", matrix, invariant(lambda a: T.slinalg.eigvalsh(a), np.linalg.eigvalsh), False)
on(
    "eig",
    matrix,
    invariant(lambda a: T.sort(T.real(T.nlinalg.complex_eig(a)[0])), np.linalg.eigvalsh),
    False,
)
on("eigh", matrix, rebuilt(from_eigh), False)
on("svd", matrix, rebuilt(from_svd), False)
on(
    "svdvals",
    matrix,
    invariant(
        lambda a: T.nlinalg.svd(a, compute_uv=False), lambda b: np.linalg.svd(b, compute_uv=False)
    ),
    False,
)
on("qr", matrix, rebuilt(lambda a: T.dot(*T.nlinalg.qr(a))), False)
on(
    "qr_r",
    matrix,
    invariant(lambda a: abs(T.nlinalg.qr(a, "r")), lambda b: np.abs(np.linalg.qr(b, "r"))),
    False,
)
on("expm", matrix, invariant(lambda a: T.slinalg.expm(a), exponential), False)
on("lstsq", matrix, lstsq_step, False)

# ---- sorting and sums along an axis


def along(function, numpy):
    """A function along an axis."""

    def build(program, x, v):
        axis = program.axis(v)
        wide = v.astype("float64") if v.dtype.kind == "f" else v
        return function(x, axis), numpy(wide, axis)

    return build


def searchsorted_step(program, x, v):
    return T.searchsorted(T.sort(x), x), np.searchsorted(np.sort(v), v)


def recurrence_step(program, x, v):
    half = T.cast(0.5, x.dtype)
    value = np.zeros(v.shape)
    for k in range(len(v)):
        value[k] = v[k] + (0.5 * value[k - 1] if k else 0)
    return _core.linear_recurrence(T.fill(x, half), x, 0), value


on("sort", all_of(dims(1), numbers), along(lambda x, a: T.sort(x, a), np.sort))
on(
    "argsort",
    all_of(dims(1), numbers),
    along(lambda x, a: T.argsort(x, a), lambda v, a: np.argsort(v, a, stable=True)),
    True,
)
on(
    "argtopk",
    all_of(dims(1), floats, lambda v: v.size > 0),
    along(lambda x, a: T.argtopk(x, 1, a), lambda v, a: np.argmax(v, a, keepdims=True)),
    True,
)
on("searchsorted", all_of(dims(1, 1), numbers), searchsorted_step, True)
on("cumsum", all_of(dims(1), numbers), along(lambda x, a: T.cumsum(x, a), np.cumsum), False)
on("cumprod", all_of(dims(1), numbers), along(lambda x, a: T.cumprod(x, a), np.cumprod), False)
on("linear_recurrence", all_of(dims(1), floats), recurrence_step, False)

# ---- identities


def same(function):
    return lambda p, x, v: (function(x), v)


def quiet(op, value):
    """Prints nothing."""


on("assert", dims(0), same(lambda x: T.opt.Assert("no")(x, T.ge(x.size, 0))))
on("print", dims(0), same(lambda x: snug.printing.Print("x", global_fn=quiet)(x)))
on("disconnected_grad", dims(0), same(lambda x: snug.gradient.disconnected_grad(x)))
on("grad_clip", all_of(dims(0), floats), same(lambda x: snug.gradient.grad_clip(x, -1, 1)))
on("grad_scale", all_of(dims(0), floats), same(lambda x: snug.gradient.grad_scale(x, 2)))
on("on_device", all_of(dims(0), floats), same(lambda x: x.transfer("cpu")))
# A gradient is asked for of every program: of integers there is none to ask for.
on(
    "undefined_grad",
    all_of(dims(0), lambda v: v.dtype.kind in "iu"),
    same(lambda x: snug.gradient.undefined_grad(x)),
)

# ---- complex numbers and Fourier transforms, whose real results are noted


def complex_of(x, v):
    return T.complex(x, x * 0.5), v + 0.5j * v


def parts(function, numpy):
    """A real function of a complex tensor."""

    def build(program, x, v):
        z, c = complex_of(x, v)
        return function(z), numpy(c)

    return build


def transform(function, numpy):
    def build(program, x, v):
        wide = v.astype("float64")
        return T.real(function(x)), np.real(numpy(wide))

    return build


def half_transform_step(program, x, v):
    n = v.shape[-1]
    half = T.fft.real_fft(x)
    wide = np.fft.irfft(np.fft.rfft(v.astype("float64"), axis=-1), n - n % 2 or 1, axis=-1)
    return T.fft.real_ifft(half, n - n % 2 or 1), wide


wave = all_of(floats, dims(1, 3), lambda v: v.shape[-1] > 0)
on("real", floats, parts(lambda z: T.real(z * z), lambda c: (c * c).real), False)
on("imag", floats, parts(lambda z: T.imag(z * z), lambda c: (c * c).imag), False)
on("pair", floats, parts(lambda z: T.abs_(z), np.abs), False)
on("view_as_real", floats, parts(lambda z: T.abs_(z), np.abs), False)
on("view_as_complex", floats, parts(lambda z: T.abs_(z), np.abs), False)
on("fft", wave, transform(lambda x: T.fft.fft(x), np.fft.fft), False)
on("rfft", wave, transform(lambda x: T.fft.real_fft(x), np.fft.rfft), False)
on("irfft", wave, half_transform_step, False)

on("dot", all_of(numbers, dims(2, 2)), dot_step, False)
on("batched_dot", all_of(numbers, dims(3, 3)), batched_dot_step, False)
on("cholesky", matrix, cholesky_step, False)
on("solve", matrix, solve_step, False)
for _axes in (2, 3):
    on(f"conv{_axes}d", all_of(matrix, pictures), conv_step(_axes), False)
    on(f"conv{_axes}d_grad_input", all_of(matrix, pictures), conv_grad_input_step(_axes), False)
    on(f"conv{_axes}d_grad_weight", all_of(matrix, pictures), conv_grad_weight_step(_axes), False)
on("max_pool", all_of(matrix, pictures), max_pool_step)
on("max_unpool", all_of(matrix, pictures), max_unpool_step, False)
on("max_pool_take", all_of(matrix, pictures), max_pool_take_step, False)
on("average_pool", all_of(matrix, pictures), average_pool_step, False)
on("average_pool_grad", all_of(matrix, pictures), average_pool_grad_step, False)
on("softmax", all_of(matrix, lambda v: v.shape[1] > 0), softmax_step(False), False)
on("log_softmax", all_of(matrix, lambda v: v.shape[1] > 0), softmax_step(True), False)
on("standardize", all_of(matrix, lambda v: v.shape[0] > 0), standardize_step, False)
on("loop", all_of(filled, numbers, dims(1, 3)), loop_step, False)
on("cast", dims(0), cast_step)

# ---- functions of several rows


def arranged(name, *arguments):
    """A function of T and NumPy, with arguments behind the tensor; "axis" is a random one."""

    def build(program, x, v):
        given = [program.axis(v) if a == "axis" else a for a in arguments]
        return getattr(T, name)(x, *given), getattr(np, name)(v, *given)

    small = all_of(dims(1), numbers, lambda v: 0 < v.size < 5000)
    on(name, small, build, False if name == "diff" else None, COMPOSITES)


arranged("diff", 1, "axis")
arranged("flip", "axis")
arranged("pad", 1, "edge")
arranged("repeat", 2, "axis")
arranged("roll", 2, "axis")
arranged("tile", 2)
arranged("transpose")
