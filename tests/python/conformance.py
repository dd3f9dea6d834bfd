"""What the tests of rows of the op table share: sample values, comparing within ULPs, the compiled
function against the reference interpreter and the checking mode, finite differences.

A test of a row is marked by `rows`; test_conformance.py makes sure that every row has one."""

import ml_dtypes
import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import _core

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTEGERS = SIGNED + UNSIGNED
DISCRETE = ["bool", *INTEGERS]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
NUMBERS = INTEGERS + FLOATS
ALL = ["bool", *NUMBERS]
DTYPES = {name: np.dtype(name) for name in ALL if name != "bfloat16"}
DTYPES["bfloat16"] = np.dtype(ml_dtypes.bfloat16)
DTYPES |= {name: np.dtype(name) for name in ("complex64", "complex128")}

sampled = set()  # the rows that some test is about
tests_of = {}  # row -> the functions that test it


def rows(*names):
    """Marks a test as one of these rows; it gets the name as its first argument."""
    sampled.update(names)

    def mark(test):
        for name in names:
            tests_of.setdefault(name, []).append(test)
        return pytest.mark.parametrize("row", names)(test)

    return mark


# ---- values


def seed(key):
    """Numbers for a generator that are the same in every process."""
    return [sum(map(ord, str(part))) for part in key]


def sample(dtype, shape, low=-4.0, high=4.0, special=True, key=0):
    """Random values. Among the first ones are NaN, infinities, zeros of both signs and the limits
    of the type, unless `special` is off."""
    rng = np.random.default_rng(seed((dtype, shape, key)))
    kind = DTYPES[dtype]
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("complex"):
        part = "float32" if dtype == "complex64" else "float64"
        real, imag = (sample(part, shape, low, high, special, (key, k)) for k in "ri")
        return (real + 1j * imag).astype(dtype)
    if dtype in FLOATS:
        info = ml_dtypes.finfo(kind)
        values = np.asarray(rng.uniform(low, high, shape))
        extra = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, float(info.max), float(info.tiny)]
    else:
        info = np.iinfo(kind)
        values = np.asarray(rng.integers(max(-9, info.min), 10, shape))
        extra = [info.min, info.max, info.max - 1, 0, 1, info.min + 1]
    result = np.zeros(shape, kind)
    result[...] = values.astype(kind)
    if special and result.size > len(extra):
        places = rng.permutation(result.size)[: len(extra)]
        result.reshape(-1)[places] = np.array(extra, object).astype(kind)
    return result


def variable(dtype, ndim, name=None, broadcastable=None):
    return T.TensorType(dtype, broadcastable or (False,) * ndim)(name)


def wide(a):
    """Floats in float64, where NumPy knows them all; the others as they are."""
    return a.astype("float64") if a.dtype.kind not in "biu" else a


# ---- comparing


def compare(got, want, ulps, what, scale=None):
    """got against the exact result `want`, within ULPs of got's dtype. `scale`: what the result is
    rounded relative to if that is more than its own size, as in a sum that cancels."""
    assert got.shape == np.shape(want), f"{what}: shape {got.shape}, not {np.shape(want)}"
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, np.asarray(want).astype(got.dtype), err_msg=what)
        return
    info = ml_dtypes.finfo(got.dtype)
    want = np.asarray(want, "float64")
    rounded = want.astype(got.dtype).astype("float64")
    got = got.astype("float64")
    regular = np.isfinite(rounded) & np.isfinite(got)
    size = np.abs(want) if scale is None else np.maximum(np.abs(want), scale)
    limit = ulps * (size * float(info.eps) + float(info.smallest_subnormal))
    # Rounding may cross the largest finite number.
    edge = np.abs(want) >= float(info.max) * (1 - 2 * ulps * float(info.eps))
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded)) | (edge & ~np.isnan(got))
    wrong = np.where(regular, np.abs(got - want) > limit, ~same)
    if np.any(wrong):
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{what}: element {at} is {got[at]!r}, NumPy has {want[at]!r}; {wrong.sum()} of "
            f"{wrong.size} differ"
        )


def accuracy(dtype):
    """ULPs: the functions of the compiled code have 4; what is rounded to 16 bits has 1."""
    return 1 if dtype in ("float16", "bfloat16") else 4


MODES = ["fast", "reference", "check"]


def ops_of(outputs):
    return {v.owner.op.name for v in _core.ancestors(outputs) if v.owner is not None}


def call_all(row, f, outputs, calls, ulps, scale, what, prepare=tuple):
    for k, (arguments, wanted) in enumerate(calls):
        wanted = wanted if isinstance(wanted, list) else [wanted]
        for i, (got, want) in enumerate(zip(f(*prepare(arguments)), wanted)):
            text = f"{row} {what}, call {k}, output {i}"
            assert got.dtype == DTYPES[outputs[i].dtype], text
            compare(got, want, ulps, text, scale)


def view_of(k, x):
    """A new input, an expression that is a view of it, and how to make its value from x's: for even
    k turned axes with gaps in the last one, for odd k the axes in reversed order."""
    fixed = x.broadcastable
    base = variable(x.dtype, x.ndim, None, fixed if k % 2 == 0 else fixed[::-1])
    if k % 2 == 1:
        return base, base.T, lambda a: np.asarray(a).T
    index = [slice(None) if f else slice(None, None, -1) for f in fixed]
    if x.ndim and not fixed[-1]:
        index[-1] = slice(1, None, 2)

    def spread(a):
        a = np.asarray(a, DTYPES[x.dtype])
        if a.ndim == 0 or fixed[-1]:
            return a[tuple(index)]
        wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1] + 1), a.dtype)
        wide[..., 1::2] = a[tuple(index[:-1])]
        return wide

    return base, base[tuple(index)] if x.ndim else base, spread


def agree_on_views(row, inputs, outputs, calls, ulps, scale, what):
    """The same with every operand a view, since a call makes strided arguments contiguous."""
    if not any(x.ndim for x in inputs):
        return
    bases, views, spreads = zip(*(view_of(k, x) for k, x in enumerate(inputs)))
    pairs = [(x, v) for x, v in zip(inputs, views) if x.ndim]
    viewed = snug.clone(outputs, pairs)
    scalars = [b if x.ndim else x for x, b in zip(inputs, bases)]
    f = snug.function(scalars, viewed, on_unused_input="ignore")
    few = calls[:: max(1, len(calls) // 6)]
    call_all(
        row,
        f,
        outputs,
        few,
        ulps,
        scale,
        f"{what} of views",
        lambda arguments: [s(a) if x.ndim else a for s, a, x in zip(spreads, arguments, inputs)],
    )


def agree_on_updates(row, inputs, outputs, calls, ulps, scale, what):
    """The same with the first operand a shared variable that the result replaces."""
    which = [k for k, y in enumerate(outputs) if inputs and y.type == inputs[0].type]
    if not which:
        return
    arguments, wanted = calls[-1]
    wanted = wanted if isinstance(wanted, list) else [wanted]
    state = snug.shared(np.asarray(arguments[0], DTYPES[inputs[0].dtype]))
    renewed = snug.clone(outputs, [(inputs[0], state)])
    f = snug.function(
        inputs[1:],
        renewed[which[0]],
        updates=[(state, renewed[which[0]])],
        on_unused_input="ignore",
    )
    text = f"{row} {what} as an update"
    compare(f(*arguments[1:]), wanted[which[0]], ulps, text, scale)
    compare(state.get_value(), wanted[which[0]], ulps, text, scale)


def agree(row, inputs, outputs, calls, ulps=4, modes=MODES, scale=None, what="", views=True):
    """Compiles the outputs in every mode and compares. calls: (arguments, results) pairs."""
    outputs = outputs if isinstance(outputs, list) else [outputs]
    if row not in ("input", "constant", "shared"):
        assert row in ops_of(outputs), f"{row} is not among {sorted(ops_of(outputs))}"
    for mode in modes:
        f = snug.function(inputs, outputs, mode=mode, on_unused_input="ignore")
        call_all(row, f, outputs, calls, ulps, scale, f"{what} {mode}")
    if views:
        agree_on_views(row, inputs, outputs, calls, ulps, scale, what)
    agree_on_updates(row, inputs, outputs, calls, ulps, scale, what)


def weighted_sum(outputs, squares=0.0):
    """A number that depends on every element of the outputs in another way."""
    cost = 0.0
    for y in outputs:
        flat = T.flatten(T.cast(y, "float64"))
        numbers = T.arange(flat.shape[0])
        cost = cost + (flat * T.sin(numbers * 0.7 + 0.3)).sum()
        if squares:
            cost = cost + squares * (flat * flat * T.cos(numbers * 0.4 + 0.1)).sum()
    return cost


def agree_gradient(row, outputs, inputs, arguments, tolerance=1e-6, step=1e-5, second=True):
    """The compiled gradient of a weighted sum against central differences, in float64; then the
    second derivative, unless `second` is the reason why there is none."""
    outputs = outputs if isinstance(outputs, list) else [outputs]
    assert row in ops_of(outputs)
    cost = weighted_sum(outputs)
    wrt = [x for x in inputs if x.dtype == "float64"]
    f = snug.function(inputs, cost, on_unused_input="ignore")
    g = snug.function(inputs, T.grad(cost, wrt), on_unused_input="ignore")
    found = g(*arguments)
    for x, gradient in zip(wrt, found):
        place = next(k for k, y in enumerate(inputs) if y is x)
        value = np.asarray(arguments[place])
        assert gradient.shape == value.shape
        for at in np.ndindex(value.shape):
            sides = []
            for sign in (1, -1):
                moved = [np.array(a) for a in arguments]
                moved[place][at] += sign * step
                sides.append(float(f(*moved)))
            want = (sides[0] - sides[1]) / (2 * step)
            assert abs(gradient[at] - want) <= tolerance * max(1.0, abs(want)), (
                f"{row}: d/d{x} at {at} is {gradient[at]}, differences give {want}"
            )
    if second is True:
        agree_second_derivative(row, outputs, inputs, arguments, max(tolerance, 1e-5), step)


def agree_second_derivative(row, outputs, inputs, arguments, tolerance=1e-5, step=1e-5):
    """The product of the second derivatives with a direction against central differences of the
    first derivative, and the product of the Jacobian (Rop) against those of the outputs."""
    wrt = [x for x in inputs if x.dtype == "float64"]
    places = [next(k for k, y in enumerate(inputs) if y is x) for x in wrt]
    values = [np.asarray(arguments[k]) for k in places]
    ways = [np.cos(np.arange(v.size) * 1.3 + 0.5).reshape(v.shape) for v in values]

    def moved(sign):
        result = [np.array(a) for a in arguments]
        for k, way in zip(places, ways):
            result[k] = result[k] + sign * step * way
        return result

    def check(what, f, derivative):
        sides = [f(*moved(sign)) for sign in (1, -1)]
        for i, (got, a, b) in enumerate(zip(derivative(*arguments), *sides)):
            want = (a - b) / (2 * step)
            scale = max([1.0, *np.abs(want).ravel(), *np.abs(a).ravel()])
            worst = np.max(np.abs(got - want), initial=0.0)
            assert worst <= tolerance * scale, f"{row}: {what} {i} is {got}, differences: {want}"

    def compiled(results):
        return snug.function(inputs, results, on_unused_input="ignore")

    cost = weighted_sum(outputs, squares=0.05)
    first = T.grad(cost, wrt)
    product = snug.gradient.hessian_vector_product(
        cost, wrt, [T.constant(way, dtype="float64") for way in ways]
    )
    check("second derivative", compiled(first), compiled(product))
    floats = [y for y in outputs if y.dtype == "float64"]
    along = snug.gradient.Rop(
        floats, wrt, [T.constant(w) for w in ways], disconnected_outputs="ignore"
    )
    check("Rop", compiled(floats), compiled(along))


def each(function):
    return np.vectorize(function, otypes=["float64"])


# These step: a difference over a step says nothing about the gradient, which is 0.
STEPS = {"ceil", "floor", "invert", "isinf", "isnan", "round", "sign", "stop_gradient", "trunc"}
STEPS |= {"bit_and", "bit_or", "bit_xor", "eq", "floor_div", "ge", "gt", "le", "lt", "ne"}
STEPS |= {"shl", "shr"}


# Of integers NumPy's function is taken as it is, not of their float values.
ON_INTEGERS = STEPS | {"abs", "neg", "sqr", "add", "sub", "mul", "mod", "pow"}
ON_INTEGERS |= {"maximum", "minimum"}


def exact(row, function, result, *operands):
    """The result before it is rounded to its dtype."""
    if operands[0].dtype.kind in "biu":
        if row in ("ceil", "floor", "round", "trunc"):
            return operands[0]  # NumPy goes through floats here, which are not exact
        if row not in ON_INTEGERS:
            operands = [a.astype(DTYPES[result]) for a in operands]
    return function(*[wide(a) for a in operands])


def layouts(a):
    """The same values in C order, in Fortran order, with gaps and with negative strides."""
    gaps = np.zeros((a.shape[0], 2 * a.shape[1] + 1), a.dtype)
    gaps[:, 1::2] = a
    turned = np.ascontiguousarray(a[::-1, ::-1])
    return [a, np.asfortranarray(a), gaps[:, 1::2], turned[::-1, ::-1]]


def operand(row, k, dtype, shape, low, high, special=True):
    a = sample(dtype, shape, low, high, special, key=k)
    if k == 1 and row == "pow" and dtype in SIGNED:  # NumPy refuses negative exponents of integers
        a = np.where(a < 0, 3, a)
    return a


# The dtypes of elementwise rows on views: one per width.
VIEWED = ["bool", "int8", "float16", "float32", "float64"]


def elementwise(row, arity, function, dtypes, low=-4.0, high=4.0, special=True, slack=0):
    """`special`: see `sample`. `slack`: ULPs that NumPy's or SciPy's function is off in float64."""
    for dtype in ALL:
        if dtype not in dtypes:
            with pytest.raises(TypeError):
                getattr(_core, row)(*[variable(dtype, 1)] * arity)
            continue
        forms = [  # matrices, scalars, and for several operands a column and a row
            [variable(dtype, 2, f"m{k}") for k in range(arity)],
            [variable(dtype, 0, f"s{k}") for k in range(arity)],
            [variable(dtype, 2, "c", (False, True)), variable(dtype, 2, "r", (True, False))],
        ][: arity + 1]
        outputs = [getattr(_core, row)(*form) for form in forms]
        calls = []
        for rows, columns in [(0, 3), (1, 1), (3, 5), (7, 37)]:
            shapes = [[(rows, columns)] * arity, [()] * arity, [(rows, 1), (1, columns)]]
            values = [
                [operand(row, k, dtype, s, low, high, special) for k, s in enumerate(form)]
                for form in shapes[: arity + 1]
            ]
            want = [exact(row, function, y.dtype, *v) for y, v in zip(outputs, values)]
            rest = [a for form in values[1:] for a in form]
            for layout in zip(*(layouts(a) for a in values[0])) if rows == 7 else [values[0]]:
                calls.append(([*layout, *rest], want))
        inputs = [x for form in forms for x in form]
        ulps = accuracy(outputs[0].dtype) + (slack if outputs[0].dtype == "float64" else 0)
        agree(row, inputs, outputs, calls, ulps, what=dtype, views=dtype in VIEWED)
    for dtype in {"float32", "int32"} & set(dtypes):  # beyond what one thread takes
        x = [variable(dtype, 2) for k in range(arity)]
        a = [operand(row, k, dtype, (300, 701), low, high, special) for k in range(arity)]
        y = getattr(_core, row)(*x)
        want = exact(row, function, y.dtype, *a)
        ulps = accuracy(y.dtype) + (slack if y.dtype == "float64" else 0)
        agree(row, x, y, [(a, want)], ulps, ["fast", "reference"], what=f"{dtype} large")


# ---- moved elements


def moved(row, outputs, numpy, dtypes=ALL, shapes=((0, 3, 1), (1, 1, 1), (2, 3, 4), (5, 70, 33))):
    """A row that moves elements of x, a tensor of 3 dimensions, and computes nothing."""
    for dtype in dtypes:
        x = variable(dtype, 3, "x")
        calls = []
        for shape in shapes:
            a = sample(dtype, shape)
            want = [wide(np.asarray(w)) for w in numpy(a)]
            calls += [((b,), want) for b in (a, np.asfortranarray(a), a[::-1, :, ::-1])[:2]]
            turned = np.ascontiguousarray(a[::-1, :, ::-1])[::-1, :, ::-1]
            calls.append(((turned,), want))
        agree(row, [x], outputs(x), calls, 0, what=dtype)
    x = variable("float64", 3, "x")
    a = sample("float64", (2, 3, 2), special=False)
    agree_gradient(row, outputs(x), [x], [a])
