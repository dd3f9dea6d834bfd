"""Complex numbers against NumPy: values in every mode, dtypes, gradients by finite differences on
real and imaginary parts (with Theano's convention: dC/dRe + i dC/dIm), what moves data, and what
makes no sense on them."""

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import MODES, agree, agree_gradient, rows, sample

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

COMPLEX = ["complex64", "complex128"]
PART = {"complex64": "float32", "complex128": "float64"}
SHAPES = [(), (0,), (1,), (7,), (4, 5), (3, 0, 2), (33, 65)]


def draw(shape, dtype="complex128", key=0, low=-2.0, high=2.0):
    rng = np.random.default_rng([len(shape), *shape, key])
    z = rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)
    return np.asarray(z, dtype)


def variable(dtype, ndim, name="z"):
    return T.TensorType(dtype, (False,) * ndim)(name)


def close(got, want, what="", factor=20):
    want = np.asarray(want)
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{what}: {got.shape}, not {want.shape}"
    eps = np.finfo(want.dtype).eps if want.dtype.kind in "fc" else 0
    scale = factor * eps
    np.testing.assert_allclose(got, want, rtol=scale, atol=scale, err_msg=what)


def check_gradient(make, values, tolerance=1e-6, step=1e-6):
    """The gradients of a real cost made of make(*variables), by complex128 and float64 inputs."""
    inputs = [variable(str(v.dtype), v.ndim, f"x{k}") for k, v in enumerate(values)]
    y = make(*inputs)
    flat = T.flatten(y)
    weight = T.sin(T.arange(flat.shape[0]) * 0.75 + 0.25)
    cost = (T.real(flat) * weight).sum()
    if y.dtype.startswith("complex"):
        cost = cost + (T.imag(flat) * T.cos(weight * 3)).sum()
    f = snug.function(inputs, cost, on_unused_input="ignore")
    gradients = T.grad(cost, inputs)
    found = snug.function(inputs, gradients, on_unused_input="ignore")(*values)
    checked = snug.function(inputs, gradients, on_unused_input="ignore", mode="check")(*values)
    for k, (value, gradient, again) in enumerate(zip(values, found, checked)):
        assert gradient.dtype == value.dtype
        np.testing.assert_allclose(gradient, again)
        for at in np.ndindex(value.shape):
            want = 0
            for unit in (1, 1j) if value.dtype.kind == "c" else (1,):
                sides = []
                for sign in (1, -1):
                    moved = [v.copy() for v in values]
                    moved[k][at] += sign * unit * step
                    sides.append(float(f(*moved)))
                want += unit * (sides[0] - sides[1]) / (2 * step)
            assert abs(gradient[at] - want) <= tolerance * max(1, abs(want)), (k, at)


# ---- elementwise


UNARY = {
    "neg": (lambda z: -z, np.negative),
    "sqr": (T.sqr, np.square),
    "sqrt": (T.sqrt, np.sqrt),
    "exp": (T.exp, np.exp),
    "exp2": (T.exp2, lambda z: np.exp(z * np.asarray(np.log(2), z.real.dtype))),
    "expm1": (T.expm1, np.expm1),
    "log": (T.log, np.log),
    "log1p": (T.log1p, np.log1p),
    "log2": (T.log2, np.log2),
    "log10": (T.log10, np.log10),
    "sin": (T.sin, np.sin),
    "cos": (T.cos, np.cos),
    "tan": (T.tan, np.tan),
    "sinh": (T.sinh, np.sinh),
    "cosh": (T.cosh, np.cosh),
    "tanh": (T.tanh, np.tanh),
    "abs": (abs, np.abs),
    "inv": (T.inv, np.reciprocal),
    "conj": (T.conj, np.conj),
    "conjugate": (lambda z: z.conjugate(), np.conj),
    "angle": (T.angle, np.angle),
    "real": (lambda z: z.real, np.real),
    "imag": (lambda z: z.imag, np.imag),
    "cube": (lambda z: z**3, lambda z: z**3),
    "power": (lambda z: z**-2, lambda z: z**-2),
    "identity": (T.tensor_copy, lambda z: z),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", COMPLEX)
def test_unary(dtype, mode):
    for ndim in range(4):
        z = variable(dtype, ndim)
        f = snug.function([z], [ours(z) for ours, _ in UNARY.values()], mode=mode)
        for shape in SHAPES:
            # Among many doubles some cancel, where the check of their last bits is too strict.
            if len(shape) != ndim or (mode == "check" and np.prod(shape) > 100):
                continue
            value = draw(shape, dtype)
            # Also strided, with a step below 0.
            for x in [value, value.T[::-1]] if ndim else [value]:
                for got, (name, (_, numpys)) in zip(f(x), UNARY.items()):
                    close(got, numpys(x), f"{name} {shape}", 60)


@pytest.mark.parametrize("name", [n for n in UNARY if n not in ("real", "imag")])
def test_unary_gradient(name):
    check_gradient(UNARY[name][0], [draw((2, 3), low=0.3, high=1.4)])
    check_gradient(UNARY[name][0], [draw((3,), key=1)])


def test_part_gradients():
    check_gradient(lambda z: z.real * 2, [draw((3,))])
    check_gradient(lambda z: z.imag * z.real, [draw((3,))])


BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
}


@pytest.mark.parametrize("other", [*COMPLEX, "float32", "float64", "int8", "int32"])
@pytest.mark.parametrize("dtype", COMPLEX)
def test_binary(dtype, other):
    value = draw((4, 3), dtype, low=0.5)
    right = draw((3,), key=1, low=0.5)
    right = right.astype(other) if other in COMPLEX else (right.real * 2 + 1).astype(other)
    a, b = variable(dtype, 2, "a"), variable(other, 1, "b")
    for x, y, pair in [(a, b, (value, right)), (b, a, (right, value))]:
        f = snug.function([x, y], [op(x, y) for op in BINARY.values()])
        for got, (name, op) in zip(f(*pair), BINARY.items()):
            assert op(x, y).dtype == str(got.dtype) == T.upcast(x.dtype, y.dtype)
            close(got, op(*pair), name, 200)


@pytest.mark.parametrize("name", BINARY)
def test_binary_gradient(name):
    op = BINARY[name]
    values = [draw((3, 2), low=0.4), draw((2,), key=1, low=0.5)]
    check_gradient(op, values)
    check_gradient(op, [values[0], values[1].real.copy()])
    check_gradient(op, [np.abs(values[0]), values[1]])


def test_division_has_no_overflow():
    a, b = T.cscalars("a", "b")
    f = snug.function([a, b], [a / b, abs(b), T.sqrt(b)])
    for x, y in [(3e38 + 1j, 2e38 + 1e38j), (1e-38 + 0j, 1e-38 + 2e-38j), (1 + 0j, 1e-30j)]:
        x, y = np.complex64(x), np.complex64(y)
        quotient, size, root = f(x, y)
        close(quotient, (np.complex128(x) / np.complex128(y)).astype("complex64"))
        close(size, np.abs(np.complex128(y)).astype("float32"))
        close(root, np.sqrt(np.complex128(y)).astype("complex64"))


def test_division_by_infinity_and_zero():
    z, w = T.zvector("z"), T.zvector("w")
    above = np.array([1, 1 + 2j, -2j, 1 + 2j, 3 - 1j])
    below = np.array([np.inf, complex(0, np.inf), complex(-np.inf, 3), 0, 0])
    for mode in MODES:
        got = snug.function([z, w], z / w, mode=mode)(above, below)
        np.testing.assert_array_equal(got[:3], [0, 0, 0])
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(got[3:], above[3:] / below[3:])


def test_the_size_of_pairs_is_checked():
    x = T.TensorType("float64", (False, False), shape=(None, 2))("x")
    f = snug.function([x], snug._core.view_as_complex(x))
    np.testing.assert_array_equal(f([[1.0, 2.0]]), [1 + 2j])
    with pytest.raises(TypeError, match="size 3 on axis 1, whose type says 2"):
        f([[1.0, 2.0, 3.0]])


def test_special_values():
    z = T.zvector()
    values = np.array([0, 1, -1, 1j, -1j, complex(-4, 0.0), complex(-4, -0.0), -0.0])
    f = snug.function([z], [T.sqrt(z), abs(z), T.angle(z)])
    for got, want in zip(f(values), [np.sqrt(values), np.abs(values), np.angle(values)]):
        np.testing.assert_allclose(got, want, rtol=1e-15, atol=1e-16)
    odd = np.array([complex(np.inf, 1), complex(1, np.nan), complex(0, -np.inf), 2 + 3j])
    g = snug.function([z], [T.isnan(z), T.isinf(z), abs(z)])
    nan, inf, size = g(odd)
    np.testing.assert_array_equal(nan, np.isnan(odd))
    np.testing.assert_array_equal(inf, np.isinf(odd))
    np.testing.assert_array_equal(np.isinf(size), [True, False, True, False])
    powers = snug.function([z], [z**0.5j, z**0, z ** (1 + 0j)])(np.array([0, 1 + 1j]))
    np.testing.assert_allclose(powers[1], [1, 1])
    np.testing.assert_allclose(powers[2], [0, 1 + 1j])


def test_gradient_at_zero_is_finite():
    z = T.zvector()
    g = snug.function([z], T.grad(abs(z).sum(), z))
    np.testing.assert_allclose(g(np.array([0j, 3 + 4j])), [0, 0.6 + 0.8j])


def test_comparisons_and_switch():
    a, b = T.zvectors("a", "b")
    x, y = np.array([1 + 1j, 2, 3j]), np.array([1 + 1j, 2 + 1j, 4j])
    f = snug.function([a, b], [T.eq(a, b), T.neq(a, b), T.switch(T.eq(a, b), a, -b)])
    same, different, chosen = f(x, y)
    np.testing.assert_array_equal(same, x == y)
    np.testing.assert_array_equal(different, x != y)
    np.testing.assert_array_equal(chosen, np.where(x == y, x, -y))
    g = snug.function([a], [T.switch(a, 1.0, 2j), a.any(), T.all(a)])
    chosen, some, every = g(np.array([0j, 1j]))
    np.testing.assert_array_equal(chosen, [2j, 1])
    assert some and not every
    values = [draw((4,)), draw((4,), key=1)]
    check_gradient(lambda u, v: T.switch(T.gt(u.real, 0), u * v, v), values)


def test_making():
    re, im = T.fvector(), T.fmatrix()
    u, v = np.float32([1, 2]), np.float32([[3, 4], [5, 6]])
    close(snug.function([re, im], T.complex(re, im))(u, v), u + 1j * v)
    size, angle = T.dvectors("r", "t")
    r, t = np.array([1.0, 2.0]), np.array([0.5, -3.0])
    close(snug.function([size, angle], T.complex_from_polar(size, angle))(r, t), r * np.exp(1j * t))
    check_gradient(T.complex, [u.astype("float64"), v.astype("float64")])
    check_gradient(T.complex_from_polar, [r, t])
    assert T.complex(T.ivector(), T.fvector()).dtype == "complex128"
    # The parts that a number was made of are the parts that it has: no pairs are made.
    f = snug.function([re], T.real(T.complex(re, re + 1)) * 2)
    assert "pair" not in f.explain().split("== tasks")[1]


def test_parts_of_real_numbers():
    x = T.dvector()
    assert T.real(x) is x and T.conj(x) is x
    f = snug.function([x], [T.imag(x), T.angle(x)])
    zero, angle = f(np.array([1.0, -1.0]))
    np.testing.assert_array_equal(zero, [0, 0])
    np.testing.assert_allclose(angle, [0, np.pi])


# ---- rows over pairs


@rows("pair")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pair(row, dtype):
    for shape in [(), (0,), (5,), (3, 4), (200, 300)]:
        a, b = (T.TensorType(dtype, (False,) * len(shape))() for _ in range(2))
        x, y = sample(dtype, shape), sample(dtype, shape, key=1)
        made = T.view_as_real(T.complex(a, b))
        agree(row, [a, b], made, [((x, y), np.stack([x, y], -1))])
    a, b = T.dmatrices("a", "b")
    made = T.view_as_real(T.complex(a, b))
    agree_gradient(row, made, [a, b], [sample("float64", (2, 3), special=False)] * 2)


@rows("real", "imag")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_of_pairs(row, dtype):
    part, place = (T.real, 0) if row == "real" else (T.imag, 1)
    for shape in [(2,), (0, 2), (5, 2), (3, 4, 2), (200, 300, 2)]:
        p = T.TensorType(dtype, (False,) * len(shape))()
        x = sample(dtype, shape)
        agree(row, [p], part(T.view_as_complex(p)), [((x,), x[..., place])])
    p = T.dmatrix()
    got = part(T.view_as_complex(p)) ** 2
    agree_gradient(row, got, [p], [sample("float64", (3, 2), special=False)])


@rows("view_as_real", "view_as_complex")
@pytest.mark.parametrize("dtype", COMPLEX)
def test_pair_views(row, dtype):
    z = variable(dtype, 2)
    value = draw((3, 4), dtype)
    pairs = value.view(PART[dtype]).reshape(3, 4, 2)
    for mode in MODES:
        f = snug.function([z], T.view_as_real(z), mode=mode)
        np.testing.assert_array_equal(f(value), pairs)
        p = T.TensorType(PART[dtype], (False,) * 3)()
        f = snug.function([p], T.view_as_complex(p), mode=mode)
        np.testing.assert_array_equal(f(pairs), value)
        np.testing.assert_array_equal(f(np.asfortranarray(pairs)), value)
    with pytest.raises(ValueError, match=r"the shape is \(3, 4, 1\), not \(3, 4, 2\)"):
        f(pairs[..., :1])


# ---- data movement, sums, products


MOVES = {
    "index": lambda z, n: z[1:, ::-2],
    "single": lambda z, n: z[-1],
    "gather": lambda z, n: z[np.array([2, 0, 2])],
    "mask": lambda z, n: z[np.array([True, False, True])],
    "newaxis": lambda z, n: z[:, None],
    "transpose": lambda z, n: z.T,
    "reshape": lambda z, n: z.reshape((2, 6)),
    "flatten": lambda z, n: z.flatten(),
    "sum": lambda z, n: z.sum(0),
    "total": lambda z, n: z.sum(),
    "mean": lambda z, n: z.mean(1),
    "concatenate": lambda z, n: (n.concatenate if n is np else T.concatenate)([z, z[:2] * 2]),
    "stack": lambda z, n: n.stack([z, -z]),
    "zeros": lambda z, n: n.zeros_like(z) + n.ones_like(z),
    "triangle": lambda z, n: n.tril(z),
    "var": lambda z, n: z.var(0),
    "std": lambda z, n: z.std(),
    "dot": lambda z, n: n.dot(z, z.T),
    "vector": lambda z, n: n.dot(z, z[0]),
    "tensordot": lambda z, n: n.tensordot(z, z, [[0], [0]]),
}


@pytest.mark.parametrize("composed", [False, True])
@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("name", MOVES)
def test_moves(name, dtype, composed):
    move = MOVES[name]
    z = variable(dtype, 2)
    value = draw((3, 4), dtype)
    inner = (lambda v: v * v) if composed else (lambda v: v)
    modes = MODES if dtype == "complex128" and name != "mask" else ["fast", "reference"]
    for mode in modes:
        f = snug.function([z], move(inner(z), T), mode=mode)
        want = np.asarray(move(inner(value), np))
        close(f(value), want, name, 200)
        close(f(np.asfortranarray(value)), want, name, 200)
    if dtype == "complex128" and name not in ("zeros", "mask"):
        check_gradient(lambda v: move(inner(v), T), [value])


def test_set_and_inc_subtensor():
    z, y = T.zmatrix(), T.zvector()
    value, part = draw((3, 4)), draw((4,), key=1)
    f = snug.function(
        [z, y],
        [
            T.set_subtensor(z[1], y),
            T.inc_subtensor(z[:, 1:], y[1:]),
            T.inc_subtensor(z[[0, 0]], 1j),
            T.set_subtensor(z[0], 2.5),
        ],
    )
    a, b, c, d = value.copy(), value.copy(), value.copy(), value.copy()
    a[1] = part
    b[:, 1:] += part[1:]
    c[0] += 2j
    d[0] = 2.5
    for got, want in zip(f(value, part), [a, b, c, d]):
        np.testing.assert_allclose(got, want)
    check_gradient(lambda u, v: T.inc_subtensor(u[:, 1:], v[1:]) ** 2, [value, part])
    check_gradient(lambda u, v: T.set_subtensor(u[1], v * v), [value, part])


def test_shape_of_complex():
    z = T.ztensor3()
    f = snug.function([z], [z.shape, z.size, z.shape[1] * 2])
    shape, size, twice = f(np.zeros((2, 3, 4), "complex128"))
    assert list(shape) == [2, 3, 4] and size == 24 and twice == 6


def test_broadcasting():
    a, b = T.zcol("a"), T.zrow("b")
    x, y = draw((3, 1)), draw((1, 4), key=1)
    f = snug.function([a, b], [a + b, a * b, a / b, a.real + b])
    for got, want in zip(f(x, y), [x + y, x * y, x / y, x.real + y]):
        close(got, want)
    check_gradient(lambda u, v: u.dimshuffle(0, "x") * v + v, [draw((3,)), draw((2,), key=1)])


def test_products_with_real_matrices():
    a, b, c = T.zmatrix(), T.dmatrix(), T.ztensor3()
    x, y = draw((3, 4)), draw((4, 2)).real.copy()
    f = snug.function([a, b], [T.dot(a, b), T.dot(b.T, a.T)])
    for got, want in zip(f(x, y), [x @ y, y.T @ x.T]):
        close(got, want)
    z = draw((2, 3, 3))
    close(snug.function([c], T.batched_dot(c, c))(z), z @ z)
    check_gradient(T.dot, [x, y])


def test_casts():
    x, z = T.ivector(), T.cvector()
    values = np.int32([1, -2])
    close(snug.function([x], T.cast(x, "complex64"))(values), values.astype("complex64"))
    close(snug.function([z], z.astype("complex128"))(np.complex64([1j])), np.array([1j]))
    assert T.eye(2, dtype="complex64").dtype == "complex64"
    close(snug.function([], T.arange(3, dtype="complex64"))(), np.arange(3, dtype="complex64"))
    close(snug.function([x], x.sum(dtype="complex128"))(values), np.complex128(-1))


# ---- constants, shared variables, functions


def test_constants():
    x = T.fvector()
    assert (x + 1j).dtype == "complex64" and (T.dvector() * 1j).dtype == "complex128"
    value = np.float32([1, 2])
    number = np.complex64(3j)
    close(snug.function([x], (1 + 2j) * x - number)(value), (1 + 2j) * value - number)
    array = draw((2, 2))
    close(snug.function([], T.constant(array) * 2)(), array * 2)
    np.testing.assert_array_equal(T.constant(array).data, array)
    assert str(T.constant(1 + 2j).dtype) == "complex64"
    f = snug.function([], T.as_tensor_variable([1j, 2]) + 1)
    np.testing.assert_array_equal(f(), [1 + 1j, 3])


@pytest.mark.parametrize("mode", MODES)
def test_shared_variables(mode):
    start = draw((3,))
    w = snug.shared(start, "w")
    assert w.dtype == "complex128" and w.type == T.zvector
    z = T.zscalar("z")
    f = snug.function([z], w.sum(), updates=[(w, w * z)], mode=mode)
    np.testing.assert_allclose(f(2j), start.sum())
    np.testing.assert_allclose(w.get_value(), start * 2j)
    g = snug.function([], [], updates=[(w, T.concatenate([w, w]))], mode=mode)
    g()
    np.testing.assert_allclose(w.get_value(), np.concatenate([start * 2j] * 2))
    w.set_value(start)
    np.testing.assert_array_equal(w.get_value(borrow=True), start)
    np.testing.assert_array_equal(np.from_dlpack(w), start)
    h = snug.function([], z + w[1], givens={z: w[0] * 2}, mode=mode)
    np.testing.assert_allclose(h(), start[1] + start[0] * 2)


def test_arguments():
    z = T.zvector("z")
    f = snug.function([z], z * 2)
    np.testing.assert_array_equal(f([1, 2]), [2, 4])
    np.testing.assert_array_equal(f(np.float32([1])), [2])
    np.testing.assert_array_equal(f(np.complex64([1j])), [2j])
    np.testing.assert_array_equal(f([1j, 0.5]), [2j, 1])
    swapped = np.array([1 + 2j]).astype(">c16")
    np.testing.assert_array_equal(f(swapped), [2 + 4j])
    c = T.cvector("c")
    g = snug.function([c], c)
    with pytest.raises(TypeError, match="without risking loss of precision"):
        g(np.array([1j]))
    x = T.dvector("x")
    for allow in (False, True):
        with pytest.raises(TypeError, match="cannot store complex numbers"):
            snug.function([x], x, allow_input_downcast=allow)(np.array([1j]))
    r = snug.function([z], z)  # an input that is an output
    value = draw((5,))
    result = r(value)
    np.testing.assert_array_equal(result, value)
    assert not np.shares_memory(result, value)


def test_empty_and_unknown_sizes():
    z = T.zvector()
    f = snug.function([z], z[T.gt(z.real, 0).nonzero()] * 1j)
    value = np.array([1 + 1j, -1, 2])
    np.testing.assert_array_equal(f(value), value[value.real > 0] * 1j)
    assert f(np.zeros(0, "complex128")).shape == (0,)


def test_loops():
    z, start, factor = T.zvector("z"), T.zscalar("start"), T.zscalar("factor")

    def run(sequence, first, by):
        step = lambda i, elements, states: ([states[0] * 0.5 + elements[0] * by], [states[0] * 1j])
        return snug.loops.loop(step, sequence, first)

    (last,), (all_states,) = run(z, start, factor)
    value, s, want = draw((4,)), 1j, []
    for x in value:
        want.append(s * 1j)
        s = s * 0.5 + x * (2 - 1j)
    for mode in MODES:
        f = snug.function([z, start, factor], [last, all_states], mode=mode)
        end, outputs = f(value, 1j, 2 - 1j)
        np.testing.assert_allclose(end, s)
        np.testing.assert_allclose(outputs, want)
    check_gradient(lambda u, v: run(u, v[0], v[1])[0][0] ** 2, [value, draw((2,), key=1)])
    mapped, _ = snug.map(lambda x: x * x, z)
    np.testing.assert_allclose(snug.function([z], mapped)(value), value**2)


def test_memory_is_exact():
    z = T.cmatrix("z")
    f = snug.function([z], [z.T, z.sum()])
    report = f.memory(z=(10, 20))
    assert report.inputs == 10 * 20 * 8
    assert report.outputs == 10 * 20 * 8 + 8
    w = snug.shared(np.zeros((4, 5), "complex128"))
    g = snug.function([], [], updates=[(w, w * 2)])
    assert g.memory().parameters == 4 * 5 * 16


def test_gradients_by_intermediate_values():
    z = T.zvector("z")
    w = z * z
    cost = (abs(w) ** 2).sum()
    value = draw((3,))
    close(snug.function([z], T.grad(cost, w))(value), 2 * value**2)
    f = snug.function([z], snug.clone(cost, {w: z * 2}))
    np.testing.assert_allclose(f(value), (np.abs(2 * value) ** 2).sum())


def test_second_derivatives():
    z = T.zvector("z")
    cost = abs(T.exp(z) * z).sum()
    gradient = T.grad(cost, z)
    check_gradient(lambda u: snug.clone(gradient, {z: u}), [draw((3,))], 1e-5)


# ---- what makes no sense


@pytest.mark.parametrize(
    "make",
    [
        lambda z: z < z,
        lambda z: z >= 1,
        lambda z: T.max(z),
        lambda z: T.argmin(z),
        lambda z: T.maximum(z, 0),
        lambda z: T.floor(z),
        lambda z: z % 2,
        lambda z: z // 2,
        lambda z: ~z,
        lambda z: z & z,
        lambda z: T.erf(z),
        lambda z: T.nnet.softmax(z),
        lambda z: T.nnet.sigmoid(z),
    ],
)
def test_undefined(make):
    with pytest.raises(TypeError, match="not defined for complex numbers"):
        make(T.zmatrix())


def test_errors():
    z = T.zvector("z")
    with pytest.raises(TypeError, match="cost must be real") as caught:
        T.grad(z.sum(), z)
    assert "real part" in str(caught.value)
    with pytest.raises(TypeError, match="complex128 cannot become a float32") as caught:
        T.cast(z, "float32")
    assert "abs(x)" in str(caught.value)
    with pytest.raises(TypeError, match="cannot take complex128"):
        T.set_subtensor(T.dvector()[0], 1j + z[0])
    with pytest.raises(TypeError, match="an index is an integer"):
        T.dvector()[z]
    with pytest.raises(TypeError, match="at most 7 dimensions"):
        T.TensorType("complex64", (False,) * 8)()
    with pytest.raises(TypeError, match="takes real numbers"):
        T.complex(z, z)
    with pytest.raises(TypeError, match="float32"):
        snug.function([z], [], updates=[(snug.shared(np.zeros(2, "float32")), z)])
