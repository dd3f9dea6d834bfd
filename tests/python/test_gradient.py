"""snug.gradient with Theano's meaning, and second derivatives of the rows."""

import importlib
import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import agree, agree_gradient, rows, sample, tests_of, variable
from snug import _core
from snug.gradient import (
    DisconnectedInputError,
    DisconnectedType,
    GradientError,
    Lop,
    NullType,
    NullTypeGradError,
    Rop,
    consider_constant,
    disconnected_grad,
    grad,
    grad_clip,
    grad_not_implemented,
    grad_scale,
    grad_undefined,
    hessian,
    hessian_vector_product,
    jacobian,
    numeric_grad,
    subgraph_grad,
    undefined_grad,
    verify_grad,
    zero_grad,
)


def value(outputs, *pairs):
    """The outputs, given (variable, value)."""
    f = snug.function([x for x, _ in pairs], outputs, on_unused_input="ignore")
    return f(*(v for _, v in pairs))


# ---- second derivatives of the table

NO_DIFFERENCES = {
    "ceil": "it is a step",
    "disconnected_grad": "it has no gradient by definition",
    "floor": "it is a step",
    "floor_div": "it is a step",
    "grad_clip": "its gradient is not its derivative",
    "grad_scale": "its gradient is not its derivative",
    "round": "it is a step",
    "sign": "it is a step",
    "stop_gradient": "its gradient is not its derivative",
    "trunc": "it is a step",
    "view_as_complex": "complex numbers are differentiated by their parts, in test_complex.py",
    "view_as_real": "complex numbers are differentiated by their parts, in test_complex.py",
}


def test_every_row_with_a_gradient_is_differentiated_twice():
    """agree_gradient checks the second derivative as well, or is given the reason against it."""
    for path in Path(__file__).parent.glob("test_*.py"):
        importlib.import_module(path.stem)
    checks = re.compile(r"\bagree_(gradient|twice)\(")
    missing = [
        row
        for row, info in _core.op_rows().items()
        if info["gradient"]
        and row not in NO_DIFFERENCES
        and not any(checks.search(inspect.getsource(t)) for t in tests_of.get(row, []))
    ]
    assert missing == []


# ---- identities with a gradient of their own


@rows("disconnected_grad", "undefined_grad", "grad_clip", "grad_scale", "on_device")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_identities(row, dtype):
    x = variable(dtype, 2)
    arguments = {"grad_clip": (-1.0, 1.0), "grad_scale": (0.5,), "on_device": ("cpu",)}.get(row, ())
    y = getattr(_core, row)(x, *arguments)
    assert y.type == x.type
    for shape in ((0, 3), (1, 1), (7, 33)):
        a = sample(dtype, shape)
        agree(row, [x], [y], [([a], [a])])


@rows(
    "grad_clip", "grad_scale", "stop_gradient", "disconnected_grad", "undefined_grad", "on_device"
)
def test_identities_have_their_gradients(row):
    x = T.dvector("x")
    a = np.array([-3.0, 0.2, 5.0])
    if row == "undefined_grad":
        with pytest.raises(NullTypeGradError, match="undefined_grad"):
            grad(undefined_grad(x).sum(), x)
        return
    if row == "disconnected_grad":
        with pytest.raises(DisconnectedInputError):
            grad(disconnected_grad(x).sum(), x)
        g = grad((disconnected_grad(x) * x).sum(), x)
        np.testing.assert_array_equal(value(g, (x, a)), a)
        return
    y = {
        "grad_clip": lambda v: grad_clip(v, -1, 2),
        "grad_scale": lambda v: grad_scale(v, 3),
        "stop_gradient": zero_grad,
        "on_device": lambda v: v.transfer("cpu"),
    }[row](x)
    want = {
        "grad_clip": np.clip(2 * a, -1, 2),
        "grad_scale": 6 * a,
        "stop_gradient": 0 * a,
        "on_device": 2 * a,
    }[row]
    np.testing.assert_array_equal(value(grad((y * y).sum(), x), (x, a)), want)


@rows("on_device")
def test_gradients_of_values_on_devices(row):
    x = T.dmatrix("x")
    agree_gradient(row, T.exp(x.transfer("cpu")), [x], [sample("float64", (2, 3), special=False)])


def test_clipped_gradients_differentiate_again():
    x = T.dscalar("x")
    g = grad(grad_clip(x, -4, 4) ** 2, x)
    assert value(grad(g, x), (x, 0.25)) == 2.0
    assert value(grad(g, x), (x, 3.0)) == 0.0


def test_the_clip_survives_compilation():
    x = T.dscalar("x")
    z = snug.grad(grad_clip(x, -1, 1) ** 2, x)
    z2 = snug.grad(x**2, x)
    assert value([z, z2], (x, 2.0)) == [1.0, 4.0]


def test_bounds_that_leave_nothing():
    with pytest.raises(ValueError, match="bounds"):
        grad_clip(T.dscalar(), 1, -1)


def test_zero_gradients_are_connected():
    x = T.dscalar("x")
    for f in (zero_grad, consider_constant):
        assert value(grad(f(x) * 1.0, x), (x, 2.0)) == 0.0


# ---- grad


def test_lists_and_tuples():
    x, y = map(T.dscalar, ("x", "y"))
    cost = x * y
    assert isinstance(grad(cost, [x, y]), list)
    assert isinstance(grad(cost, (x, y)), tuple)
    assert isinstance(grad(cost, x), _core.Variable)


def test_known_gradients_without_a_cost():
    x = T.dvector("x")
    y = T.tanh(x)
    g = grad(None, x, known_grads={y: 2 * T.ones_like(y)})
    a = np.array([0.1, -2.0])
    np.testing.assert_allclose(value(g, (x, a)), 2 * (1 - np.tanh(a) ** 2))


def test_known_gradients_take_the_type_of_their_variable():
    x = T.fmatrix("x")
    g = grad(None, x, known_grads={x * 2: np.ones((1, 3))})
    assert g.dtype == "float32" and g.broadcastable == (False, False)


def test_known_gradients_replace_what_arrives():
    x = T.dscalar("x")
    y = x * x
    z = y * 3
    g = grad(z, x, known_grads={y: T.constant(1.0, dtype="float64")})
    assert value(g, (x, 5.0)) == 10.0


def test_neither_cost_nor_known_gradients():
    with pytest.raises(ValueError):
        grad(None, T.dscalar())


def test_constants_stop_gradients_and_get_theirs():
    x = T.dscalar("x")
    y = x * x
    z = y * 3 + x
    by_y, by_x = grad(z, [y, x], consider_constant=[y])
    assert value([by_y, by_x], (x, 2.0)) == [3.0, 1.0]


@pytest.mark.parametrize("how", ["raise", "warn", "ignore"])
def test_disconnected_inputs(how):
    x, y = map(T.dscalar, ("x", "y"))
    if how == "raise":
        with pytest.raises(DisconnectedInputError, match="does not depend on y"):
            grad(x * 2, y, disconnected_inputs=how)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        g = grad(x * 2, [x, y], disconnected_inputs=how)
    assert len(caught) == (how == "warn")
    assert all(w.filename == __file__ for w in caught)
    assert value(g, (x, 1.0), (y, 7.0)) == [2.0, 0.0]


def test_what_stands_for_a_disconnected_gradient():
    x, y = map(T.dscalar, ("x", "y"))

    def found(kind):
        return grad(x * 2, y, disconnected_inputs="ignore", return_disconnected=kind)

    assert value(found("zero"), (y, 7.0)) == 0.0
    assert found("None") is None
    assert isinstance(found("Disconnected").type, DisconnectedType)
    for name in ("return_disconnected", "disconnected_inputs", "null_gradients"):
        with pytest.raises(ValueError, match="choose"):
            grad(x * 2, x, **{name: "x"})


def test_gradients_that_do_not_exist():
    x, y = map(T.dscalar, ("x", "y"))
    cost = undefined_grad(T.exp(x)) * 2 + x * y
    with pytest.raises(NullTypeGradError, match="has no gradient"):
        grad(cost, [x, y])
    by_x, by_y = grad(cost, [x, y], null_gradients="return")
    assert isinstance(by_x.type, NullType) and "undefined_grad" in by_x.type.why_null
    assert value(by_y, (x, 4.0)) == 4.0
    assert issubclass(NullTypeGradError, TypeError)


def test_texts_of_null_gradients():
    x = T.dscalar("x")
    for f in (grad_not_implemented, grad_undefined):
        assert "because" in f("my op", 0, x, "because").type.why_null


def test_names():
    x = T.dscalar("x")
    cost = T.exp(x)
    cost.name = "cost"
    assert grad(cost, x).name == "(dcost/dx)"
    cost.name = "again"
    assert grad(cost, x, add_names=False).name is None


def test_costs_are_real_without_dimensions():
    with pytest.raises(TypeError, match="0-d"):
        grad(T.dvector("v"), T.dscalar())
    with pytest.raises(TypeError, match="real"):
        grad(T.zscalar("z"), T.dscalar())


def test_integers():
    i, x = T.iscalar("i"), T.dscalar("x")
    g = grad(T.cast(i, "float64") ** 2, i)
    assert g.dtype == "float64" and value(g, (i, 3)) == 6.0
    assert grad(i * 2.5, i).dtype == "float64"
    # Through integers nothing is continuous, but it is connected.
    assert value(grad(T.cast(T.cast(x, "int64") * 2, "float64"), x), (x, 3.0)) == 0.0
    j = T.ivector("j")
    assert value(grad((j * np.array([0.5, 2.0])).sum(), j), (j, [1, 2])).tolist() == [0.5, 2.0]


# ---- parts of graphs


def test_subgraph_grad_layer_by_layer():
    rng = np.random.default_rng(0)
    x, t = T.dvector("x"), T.dvector("t")
    w1, w2 = snug.shared(rng.normal(size=(3, 4))), snug.shared(rng.normal(size=(4, 2)))
    a1 = T.tanh(T.dot(x, w1))
    a2 = T.tanh(T.dot(a1, w2))
    cost2 = T.sqr(a2 - t).sum() + T.sqr(w2.sum())
    cost1 = T.sqr(w1.sum())
    whole = grad(cost2 + cost1, [w2, w1])
    found, start = [], None
    for params, end, cost in (([w2], [a1], cost2), ([w1], [x], cost1)):
        by_params, by_end = subgraph_grad(params, end, start, cost)
        start = dict(zip(end, by_end))
        found += by_params
    given = (x, rng.normal(size=3)), (t, rng.normal(size=2))
    for a, b in zip(value(found, *given), value(whole, *given)):
        np.testing.assert_allclose(a, b)


def test_subgraph_grad_in_detail():
    x = T.dscalar("x")
    y = x * x
    z = y * 3
    wrt, end, from_start, from_cost = subgraph_grad([y], [x], None, z, details=True)
    assert from_start is None and len(from_cost) == 2
    assert value([wrt[0], end[0]], (x, 2.0)) == [3.0, 12.0]
    with pytest.raises(ValueError):
        subgraph_grad([y], [x])
    with pytest.raises(TypeError):
        subgraph_grad(y, [x], cost=z)


# ---- products with Jacobians


def jacobian_of(f, a, step=1e-6):
    columns = []
    for at in np.ndindex(a.shape):
        sides = []
        for sign in (1, -1):
            b = a.copy()
            b[at] += sign * step
            sides.append(f(b))
        columns.append((sides[0] - sides[1]) / (2 * step))
    return np.stack(columns, axis=-1).reshape(*columns[0].shape, *a.shape)


def test_products_from_both_sides():
    rng = np.random.default_rng(1)
    W, x, V, u = T.dmatrix("W"), T.dvector("x"), T.dmatrix("V"), T.dvector("u")
    y = T.tanh(T.dot(x, W))
    w, a = rng.normal(size=(3, 2)), rng.normal(size=3)
    v, s = rng.normal(size=(3, 2)), rng.normal(size=2)
    J = jacobian_of(lambda m: np.tanh(a @ m), w)
    right = value(Rop(y, W, V), (W, w), (x, a), (V, v))
    np.testing.assert_allclose(right, np.tensordot(J, v, 2), rtol=1e-6)
    left = value(Lop(y, W, u), (W, w), (x, a), (u, s))
    np.testing.assert_allclose(left, np.tensordot(s, J, 1), rtol=1e-6)


def test_several_functions_and_variables():
    x, y = T.dvector("x"), T.dvector("y")
    f = [x * y, (x * x).sum()]
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    p, q = np.array([0.5, -1.0]), np.array([2.0, 1.0])
    pv, qv = T.dvector(), T.dvector()
    found = Rop(f, [x, y], [pv, qv])
    assert isinstance(found, list)
    one, two = value(found, (x, a), (y, b), (pv, p), (qv, q))
    np.testing.assert_allclose(one, p * b + a * q)
    np.testing.assert_allclose(two, 2 * (a * p).sum())
    gx, gy = value(Lop(tuple(f), (x, y), [pv, T.constant(2.0)]), (x, a), (y, b), (pv, p))
    np.testing.assert_allclose(gx, p * b + 4 * a)
    np.testing.assert_allclose(gy, p * a)


def test_functions_of_each_other_add_up():
    x = T.dscalar("x")
    y = 3 * x
    found = Lop([y, y * 2], x, [T.constant(1.0), T.constant(10.0)])
    assert value(found, (x, 1.0)) == 63.0


def test_the_right_product_takes_a_variable_for_itself():
    x, v = T.dvector("x"), T.dvector("v")
    assert value(Rop(x, x, v), (v, [1.0, 2.0])).tolist() == [1.0, 2.0]


def test_disconnected_outputs():
    x, y, v = T.dvector("x"), T.dvector("y"), T.dvector("v")
    with pytest.raises(DisconnectedInputError, match="Rop"):
        Rop(y * 2, x, v)
    zero = Rop(y * 2, x, v, disconnected_outputs="ignore")
    assert value(zero, (y, [1.0, 1.0])).tolist() == [0.0, 0.0]
    for kind in ("None", "Disconnected"):
        found = Rop([y, x], x, v, disconnected_outputs="ignore", return_disconnected=kind)
        assert (found[0] is None) == (kind == "None")
        assert kind == "None" or isinstance(found[0].type, DisconnectedType)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Rop(y * 2, x, v, disconnected_outputs="warn")
    assert len(caught) == 1
    with pytest.raises(DisconnectedInputError):
        Lop(y * 2, x, v)


def test_points_fit_their_variables():
    x = T.dvector("x")
    with pytest.raises(ValueError, match="dimensions"):
        Rop(x * 2, x, T.dmatrix())
    with pytest.raises(ValueError, match="evaluation points"):
        Lop([x * 2, x], x, [T.dvector()])


def test_stable_forms_are_differentiated():
    x = T.dvector("x")
    y = T.log(T.nnet.sigmoid(x))
    a = np.array([-800.0, 0.0, 800.0])
    ones = T.ones_like(x)
    want = [1.0, 0.5, 0.0]
    np.testing.assert_allclose(value(Lop(y, x, ones), (x, a)), want)
    np.testing.assert_allclose(value(Rop(y, x, ones), (x, a)), want)
    np.testing.assert_allclose(np.diag(value(jacobian(y, x), (x, a))), want)


def test_loops():
    x, s, v = T.dmatrix("x"), T.dvector("s"), T.dmatrix("v")

    def step(i, elements, states):
        after = T.tanh(states[0] * elements[0] + elements[0])
        return [after], [after * after]

    states, outputs = snug.loop(step, [x], [s])
    y = outputs[0].flatten()
    rng = np.random.default_rng(3)
    a, b, c = rng.normal(size=(4, 3)), rng.normal(size=3), rng.normal(size=(4, 3))
    f = snug.function([x, s], y)
    J = jacobian_of(lambda m: f(m, b), a)
    found = value([Rop(y, x, v), jacobian(y, x)], (x, a), (s, b), (v, c))
    np.testing.assert_allclose(found[0], np.tensordot(J, c, 2), atol=1e-7)
    np.testing.assert_allclose(found[1], J, atol=1e-7)
    cost = (states[0] ** 2).sum()
    g = snug.function([x, s], grad(cost, s))
    H = jacobian_of(lambda m: g(a, m), b)
    np.testing.assert_allclose(value(hessian(cost, s), (x, a), (s, b)), H, atol=1e-6)


# ---- whole Jacobians


def test_jacobian():
    x = T.dvector("x")
    a = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(value(jacobian(x**2, x), (x, a)), np.diag(2 * a))
    assert jacobian(x**2, [x])[0].ndim == 2 and isinstance(jacobian(x**2, (x,)), tuple)
    np.testing.assert_allclose(value(jacobian((x**2).sum(), x), (x, a)), 2 * a)
    W = T.dmatrix("W")
    w = np.arange(6.0).reshape(3, 2)
    found = value(jacobian(T.dot(x, W) ** 2, W), (x, a), (W, w))
    assert found.shape == (2, 3, 2)
    np.testing.assert_allclose(found, jacobian_of(lambda m: (a @ m) ** 2, w), rtol=1e-5)
    with pytest.raises(TypeError, match="flatten"):
        jacobian(W, W)


def test_jacobians_of_sizes_known_while_running():
    x = T.dvector("x")
    y = x[x > 0] ** 2
    found = value(jacobian(y, x), (x, np.array([1.0, -2.0, 3.0])))
    np.testing.assert_allclose(found, [[2.0, 0.0, 0.0], [0.0, 0.0, 6.0]])
    assert value(jacobian(y, x), (x, np.array([-1.0]))).shape == (0, 1)


def test_jacobians_by_what_is_not_there():
    x, y = T.dvector("x"), T.dvector("y")
    with pytest.raises(DisconnectedInputError):
        jacobian(x**2, y)
    zero = jacobian(x**2, [x, y], disconnected_inputs="ignore")[1]
    found = value(zero, (x, np.ones(2)), (y, np.ones(3)))
    np.testing.assert_array_equal(found, np.zeros((2, 3)))


def test_hessian():
    x = T.dvector("x")
    a = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(value(hessian((x**3).sum(), x), (x, a)), np.diag(6 * a))
    np.testing.assert_allclose(value(hessian(x.sum(), x), (x, a)), np.zeros((3, 3)))
    p = T.dvector("p")
    q = np.array([1.0, -1.0, 0.5])
    cost = T.exp((x * x).sum() * 0.1) + x[0] * x[1] * x[2]
    full = value(hessian(cost, x), (x, a))
    quick = value(hessian_vector_product(cost, x, p), (x, a), (p, q))
    np.testing.assert_allclose(quick, full @ q)
    with pytest.raises(TypeError, match="dimensions"):
        hessian(cost, T.dmatrix())


# ---- testing gradients


def test_verify_grad_accepts_right_gradients():
    rng = np.random.RandomState(0)
    verify_grad(T.tanh, (np.asarray([[2, 3, 4], [-1, 3.3, 9.9]]),), rng=rng)
    verify_grad(T.dot, [rng.rand(2, 3), rng.rand(3, 1)], rng=rng)
    verify_grad(lambda x: x * 2, [rng.rand(3).astype("float32")], rng=rng)
    verify_grad(lambda x: x.sum(axis=0), [rng.rand(1, 3)], rng=rng, eps=1e-6, n_tests=1)


def test_verify_grad_refuses_wrong_ones():
    rng = np.random.RandomState(0)
    with pytest.raises(GradientError) as caught:
        verify_grad(lambda x: grad_scale(x, 2), [np.array([1.0, 2.0])], rng=rng)
    assert caught.value.arg == 0 and abs(caught.value.rel_err - 1 / 3) < 1e-4
    assert verify_grad.E_grad is GradientError
    assert "finite differences" in str(caught.value)


def test_arguments_of_verify_grad():
    rng = np.random.RandomState(0)
    with pytest.raises(TypeError, match="rng"):
        verify_grad(T.tanh, [np.ones(2)])
    with pytest.raises(TypeError, match="int64"):
        verify_grad(T.tanh, [np.array([1])], rng=rng)
    with pytest.raises(TypeError, match="list"):
        verify_grad(T.tanh, np.ones(2), rng=rng)
    with pytest.raises(NotImplementedError):
        verify_grad(lambda x: [x, x], [np.ones(2)], rng=rng)


def test_numeric_grad():
    found = numeric_grad(lambda a, b: (a * b).sum(), [np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    np.testing.assert_allclose(found.gf[0], [3.0, 4.0], rtol=1e-5)
    np.testing.assert_allclose(found.gf[1], [1.0, 2.0], rtol=1e-5)
    right = [np.array([3.0, 4.0]), np.array([1.0, 2.0])]
    assert found.max_err(right, 1e-4, 1e-4)[2] < 1e-4
    wrong = [np.array([3.0, 4.0]), np.array([1.0, 5.0])]
    assert found.max_err(wrong, 1e-4, 1e-4)[:2] == (1, 1)
    single = numeric_grad(lambda a: (a**2).sum(), np.array([1.0, 2.0]))
    np.testing.assert_allclose(single.gf, [2.0, 4.0], rtol=1e-5)
    with pytest.raises(ValueError):
        found.abs_rel_errors([np.ones(2)])


def test_long_chains():
    x = T.dscalar("x")
    y = x
    for _ in range(20000):
        y = y * (1 + 2.0**-13)
    v = T.dscalar("v")
    g = grad(y, x)
    r = Rop(y, x, v)
    f = snug.function([x, v], [g, r], on_unused_input="ignore")
    want = (1 + 2.0**-13) ** 20000
    np.testing.assert_allclose(f(1.0, 2.0), [want, 2 * want], rtol=1e-9)


def test_integer_cost():
    """Its gradients are zeros, with a warning."""
    n, x, s = snug.shared(3), T.fvector("x"), T.fscalar("s")
    with pytest.warns(UserWarning, match="the cost is int64, so its gradients are zeros"):
        g = T.grad(n + n, n)
    assert g.dtype == snug.config.floatX and g.eval() == 0
    with pytest.warns(UserWarning, match="so its gradients are zeros"):
        g = T.grad(T.eq(x, 0).sum(), x)
    assert g.dtype == "float32" and g.eval({x: [0, 1]}).tolist() == [0, 0]
    with pytest.raises(snug.DisconnectedInputError):
        T.grad(T.eq(x, 0).sum(), s)
    with pytest.warns(UserWarning, match="the cost is int64"):
        assert T.grad(n, n).eval() == 1  # by itself


@pytest.mark.parametrize("shift", ["none", "of rows", "of all"])
def test_a_softmax_that_is_written_out_is_computed_once_with_its_gradient(shift):
    x, w = T.dmatrix(), T.dmatrix()
    z = {"none": x, "of rows": x - T.max(x, axis=-1, keepdims=True), "of all": x - T.max(x)}[shift]
    e = T.exp(z)
    loss = T.sum(T.dot(e / T.sum(e, axis=-1, keepdims=True), w) ** 2)
    f = snug.function([x, w], [loss, *grad(loss, [x, w])], profile=True)
    random = np.random.default_rng(3)
    a, b = random.standard_normal((5, 7)), random.standard_normal((7, 3))
    value, by_x, by_w = f(a, b)
    products = [step for step in f.profile.steps if step.name.startswith("dot")]
    assert len(products) == 3, products  # forward, and two gradients
    p = np.exp(a - a.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    dy = 2 * (p @ b)
    dp = dy @ b.T
    np.testing.assert_allclose(value, ((p @ b) ** 2).sum(), rtol=1e-12)
    np.testing.assert_allclose(by_w, p.T @ dy, rtol=1e-10)
    np.testing.assert_allclose(by_x, p * (dp - (p * dp).sum(1, keepdims=True)), atol=1e-12)
