"""Theano's op classes over the rows: what isinstance says of ops of a graph, and what instances
build. The names that have a probe are in test_reference.py, too; here is what a sample call does
not show."""

import importlib
import os

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import scalar
from snug.gof.graph import inputs


def value(expression, given=None):
    return expression.eval(given or {})


def test_the_class_of_an_op_of_a_graph():
    x, i = T.dmatrix("x"), T.lvector("i")
    for expression, classes in [
        (T.exp(x), [T.Elemwise]),
        (x + 1, [T.Elemwise]),
        (x.sum(0), [T.Sum, T.CAReduce, T.elemwise.CAReduceDtype]),
        (x.prod(), [T.elemwise.Prod, T.CAReduce]),
        (T.any(x > 0), [T.elemwise.Any, T.CAReduce]),
        (x.max(axis=1), [T.CAReduce]),
        (x.argmax(axis=1), [T.Argmax]),
        (x.T, [T.DimShuffle]),
        (x.reshape((2, -1)), [T.Reshape]),
        (x[1:], [T.Subtensor]),
        (x[0, 0], [T.Subtensor]),
        (x[i], [T.AdvancedSubtensor1, T.AdvancedSubtensor]),
        (T.set_subtensor(x[1:], 0), [T.IncSubtensor]),
        (T.inc_subtensor(x[i], 1), [T.AdvancedIncSubtensor1]),
        (T.dot(x, x), [T.Dot]),
        (T.join(0, x, x), [T.Join]),
        (x.shape, [T.Shape]),
        (T.alloc(0.0, 2, 3), [T.Alloc]),
        (T.eye(3), [T.Eye]),
        (T.arange(3), [T.ARange]),
        (T.addbroadcast(x, 0), [T.Rebroadcast]),
    ]:
        op = expression.owner.op
        for kind in classes:
            assert isinstance(op, kind), (op, kind)
        others = [T.Elemwise, T.Sum, T.Dot, T.Join, T.Subtensor, T.DimShuffle, T.Reshape]
        for kind in set(others) - set(classes):
            assert not isinstance(op, kind), (op, kind)
        assert isinstance(op, T.Op)


def test_attributes_of_ops_in_a_graph():
    x = T.dmatrix("x")
    assert x.sum(axis=[0]).owner.op.axis == (0,)
    assert x.dimshuffle(1, "x", 0).owner.op.new_order == (1, "x", 0)
    assert isinstance(T.exp(x).owner.op.scalar_op, scalar.Exp)
    assert T.exp(x).owner.op.scalar_op == scalar.exp
    assert isinstance(x.astype("int8").owner.op.scalar_op, scalar.Cast)
    assert x.astype("int8").owner.op.scalar_op.o_type == scalar.int8
    with pytest.raises(AttributeError):
        T.exp(x).owner.op.axis  # noqa: B018
    with pytest.raises(AttributeError):
        x.sum().owner.op.scalar_op  # noqa: B018


def test_instances_are_values():
    assert T.Sum(axis=0) == T.Sum(0) and hash(T.Sum(axis=0)) == hash(T.Sum(0))
    assert T.Sum(0) != T.Sum(1) and T.Sum(0) != T.elemwise.Prod(0)
    assert repr(T.Reshape(2)) == "Reshape{ndim=2, name=None}"
    assert isinstance(T.Sum(0), T.Sum) and isinstance(T.Sum(0), T.CAReduce)
    assert isinstance(T.AdvancedSubtensor(), T.BaseAdvancedSubtensor)
    assert not isinstance(3, T.Sum)


def test_constructors_check_their_arguments():
    with pytest.raises(TypeError):
        T.Reshape()
    with pytest.raises(TypeError):
        T.Sum(axes=0)
    with pytest.raises(TypeError, match="only says what kind"):
        T.BaseAdvancedSubtensor()(T.dmatrix(), 1)
    with pytest.raises(TypeError, match="no reduction"):
        T.CAReduce(scalar.sub, 0)(T.dmatrix())
    with pytest.raises(TypeError, match="broadcast pattern"):
        T.DimShuffle((True, False), (1, 0))(T.dmatrix())
    with pytest.raises(TypeError, match="must be known"):
        T.Join()(T.lscalar(), T.dmatrix())


def test_make_node_and_names():
    x = T.dmatrix("x")
    node = T.Sum(0).make_node(x)
    assert node.op.name == "sum" and node.inputs == [x]
    assert T.Dot()(x, x, name="product").name == "product"
    assert len(T.Dot()(x, x, return_list=True)) == 1
    assert [y.ndim for y in T.MaxAndArgmax(1)(x)] == [1, 1]


def test_subtensor_takes_run_time_values_from_its_inputs():
    x, a = T.dmatrix("x"), np.arange(20.0).reshape(4, 5)
    part = T.Subtensor([slice(T.lscalar, None, scalar.int64), 2])(x, 1, 2)
    np.testing.assert_array_equal(value(part, {x: a}), a[1::2, 2])
    put = T.IncSubtensor([slice(None, T.lscalar)], set_instead_of_inc=True)(x, 0.0, 2)
    want = a.copy()
    want[:2] = 0
    np.testing.assert_array_equal(value(put, {x: a}), want)
    with pytest.raises(TypeError, match="fewer inputs"):
        T.Subtensor([T.lscalar])(x)


@pytest.mark.parametrize("start", [None, 0, 2, -2, 9, -9])
@pytest.mark.parametrize("stop", [None, 0, 3, -1, 9, -9])
@pytest.mark.parametrize("step", [None, 1, 2, -1, -3])
def test_canonical_slices(start, stop, step):
    a = np.arange(5)
    part = slice(start, stop, step)
    found, direction = T.get_canonical_form_slice(part, 5)
    assert found.start >= 0 and 0 <= found.stop <= 5 and found.step > 0
    np.testing.assert_array_equal(a[found][::direction], a[part])


def test_canonical_slices_of_run_time_values():
    n, low, high, step = (T.lscalar(c) for c in "nlhs")
    found, direction = T.get_canonical_form_slice(slice(low, high, step), n)
    f = snug.function([n, low, high, step], [found.start, found.stop, found.step, direction])
    a = np.arange(7)
    for part in [(0, 7, 1), (-3, 9, 2), (6, -9, -1), (5, 0, -2), (3, 1, 1), (-1, 2, -1)]:
        start, stop, by, order = (int(v) for v in f(7, *part))
        np.testing.assert_array_equal(a[start:stop:by][::order], a[slice(*part)])
    at, _ = T.get_canonical_form_slice(low, n)
    assert value(at, {low: -2, n: 7}) == 5


def test_constants_of_expressions():
    x, s = T.dmatrix("x"), T.dscalar("s")
    known = T.get_scalar_constant_value
    assert known(T.constant(2) * 3 + 1) == 7
    assert known(T.alloc(4.0, x.shape[0], 3)) == 4
    assert known(T.zeros_like(x).dimshuffle(1, 0, "x") + 2.5) == 2.5
    assert known(T.constant(np.full((2, 2), 3))) == 3
    assert known(T.constant([1, 2])[1]) == 2 and known(T.arange(4).sum()) == 6
    assert known(T.arange(3)[1] + T.zeros_like(x)) == 1
    assert known(T.specify_shape(x, (3, None)).shape[0]) == 3
    assert np.isnan(known(T.constant(np.nan)))
    for unknown in (s, s * 0, x.shape[0], T.constant([1, 2]), None):
        with pytest.raises(T.NotScalarConstantError):
            known(unknown)
    with pytest.raises(T.EmptyConstantError):
        known(T.constant(np.zeros(0)))
    assert T.extract_constant(s) is s
    assert T.get_vector_length(T.stack([s, s, s])) == 3
    with pytest.raises(ValueError, match="not known"):
        T.get_vector_length(T.dvector())


def test_scalar_types_and_ops():
    x = scalar.float32("x")
    assert x.ndim == 0 and x.dtype == "float32"
    assert scalar.Scalar("int8") == scalar.int8 != scalar.int16
    assert scalar.upcast("int32", "float32") == "float64"
    assert value(scalar.add(x, x, 1.0), {x: 2.0}) == 5
    assert scalar.add == scalar.Add() and scalar.add != scalar.mul
    assert isinstance(scalar.exp, scalar.UnaryScalarOp) and scalar.exp.nin == 1
    assert scalar.convert_to_int8(T.constant(3.7)).dtype == "int8"
    assert scalar.constant(300).dtype == "int16" and scalar.convert(3).dtype == np.int8
    with pytest.raises(TypeError):
        scalar.as_scalar(T.dvector())
    assert [v.dtype for v in scalar.as_common_dtype(T.bscalar(), T.dscalar())] == ["float64"] * 2


def test_in_place_names_are_the_pure_functions():
    x = T.dmatrix("x")
    from snug.tensor import inplace

    a = np.ones((2, 2))
    shared = snug.shared(a)
    np.testing.assert_array_equal(value(inplace.add_inplace(shared, 1.0)), a + 1)
    np.testing.assert_array_equal(shared.get_value(), a)
    assert inplace.exp_inplace(x).owner.op.name == "exp"


def test_modules_that_are_names_of_functions_as_well():
    import importlib

    module = importlib.import_module("snug.tensor.var")
    assert module.TensorVariable is T.TensorVariable
    assert module.AsTensorError is T.AsTensorError
    assert callable(T.var) and T.var(T.dmatrix()).ndim == 0
    from snug.tensor.basic import dot
    from snug.tensor.var import TensorConstant

    assert dot is T.dot and TensorConstant is T.TensorConstant


def test_diagonals_of_more_dimensions():
    x = T.dmatrix("x")
    a = np.arange(6.0).reshape(2, 3)
    for offset in (0, 1, -2):
        got = value(T.AllocDiag(offset, 0, 2)(x), {x: a})
        np.testing.assert_array_equal(np.diagonal(got, offset, 0, 2), a)
        assert got.sum() == a.sum() and got.shape == (3 + abs(offset), 2, 3 + abs(offset))


def test_load(tmp_path):
    a = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "a.npy", a)
    np.testing.assert_array_equal(T.load(tmp_path / "a.npy", "float64", (False, False)).eval(), a)
    with pytest.raises(TypeError, match="holds float64 with 2 dimensions, not float32 with 2"):
        T.load(tmp_path / "a.npy", "float32", (False, False))
    with pytest.raises(TypeError, match="must be a text"):
        T.load(T.dscalar(), "float32", (False,))
    with pytest.raises(ValueError, match="copy on write"):
        T.load(tmp_path / "a.npy", "float64", (False, False), "r+")
    np.save(tmp_path / "b.npy", np.array([0, 1, 7], "u1").view("bool"))
    with pytest.raises(ValueError, match="other bytes than 0 and 1"):
        T.load(tmp_path / "b.npy", "bool", (False,))
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(ValueError, match="no regular file"):
        T.load(tmp_path / "pipe.npy", "float64", (False,))


def test_transfer():
    x = T.dmatrix("x")
    here = snug.function([x], T.transfer(x, "cpu") + x.transfer("cpu"))
    np.testing.assert_array_equal(here([[1, 2]]), [[2, 4]])
    with pytest.raises(ValueError, match="no device 'moon'"):
        T.transfer(x, "moon")
    T.register_transfer(lambda variable, target: variable if target == "moon" else None)
    assert T.transfer(x, "moon") is x


def test_comparisons_of_values():
    from snug.tensor import type as types

    a = np.array([1.0, np.inf, np.nan])
    assert types.values_eq_approx(a, a + 1e-9)
    assert not types.values_eq_approx(a, np.array([1.0, 2.0, np.nan]))
    assert types.values_eq_approx_remove_inf(a, np.array([1.0, 2.0, np.nan]))
    assert types.values_eq_approx_remove_inf_nan(a, np.array([1.0, 2.0, 3.0]))
    assert not types.values_eq_approx(np.zeros(2), np.zeros(2, "float32"))


def test_shapes_of_variables():
    x, y = T.fmatrix("x"), T.fmatrix("y")
    product = T.dot(x, y)
    shapes = T.utils.shape_of_variables([product], {x: (2**20, 3), y: (3, 2**20)})
    assert shapes == {product: (2**20, 2**20)}


def test_block_products():
    rng = np.random.default_rng(0)
    w, h, b = rng.normal(size=(4, 5, 2, 3)), rng.normal(size=(6, 2, 2)), rng.normal(size=(5, 3))
    rows, columns = rng.integers(0, 4, (6, 2)), rng.integers(0, 5, (6, 3))
    got = T.nnet.blocksparse.sparse_block_dot(w, h, rows, b, columns).eval()
    for k in range(6):
        for o in range(3):
            want = b[columns[k, o]].copy()
            for i in range(2):
                want += h[k, i] @ w[rows[k, i], columns[k, o]]
            np.testing.assert_allclose(got[k, o], want)


# ---- classes of the other modules


def test_classes_of_other_modules():
    x, k = T.dmatrix("x"), T.lscalar("k")
    extra, nlinalg, slinalg = T.extra_ops, T.nlinalg, T.slinalg
    sorting = importlib.import_module("snug.tensor.sort")
    gradient, ops = snug.gradient, snug.compile.ops
    values = np.array([[4.0, 1.0], [1.0, 3.0]])
    factor = np.linalg.cholesky(values)
    for expression, kind, wanted in [
        (extra.CumOp(0, "mul")(x), extra.CumOp, values.cumprod(0)),
        (extra.CumsumOp(1)(x), extra.CumsumOp, values.cumsum(1)),
        (extra.SearchsortedOp("right")([0.0, 2.0], x[0]), extra.SearchsortedOp, [2, 1]),
        (nlinalg.MatrixInverse()(x), nlinalg.MatrixInverse, np.linalg.inv(values)),
        (nlinalg.Det()(x), nlinalg.Det, np.linalg.det(values)),
        (nlinalg.Eigh()(x)[0], nlinalg.Eigh, np.linalg.eigvalsh(values)),
        (nlinalg.SVD(compute_uv=False)(x), nlinalg.SVD, np.linalg.svd(values)[1]),
        (nlinalg.QRIncomplete("r")(x), nlinalg.QRIncomplete, np.linalg.qr(values)[1]),
        (slinalg.Cholesky()(x), slinalg.Cholesky, factor),
        (slinalg.Cholesky(lower=False)(x), slinalg.Cholesky, factor.T),
        (slinalg.Solve()(x, x), slinalg.Solve, np.eye(2)),
        (slinalg.Eigvalsh()(x), slinalg.Eigvalsh, np.linalg.eigvalsh(values)),
        (sorting.SortOp("quicksort", None)(x, 0), sorting.SortOp, np.sort(values, 0)),
        (sorting.ArgSortOp("stable")(x), sorting.ArgSortOp, np.argsort(values)),
        (gradient.GradClip(-1, 1)(x), gradient.GradClip, values),
        (gradient.zero_grad_(x), gradient.ZeroGrad, values),
        (gradient.disconnected_grad_(x), gradient.DisconnectedGrad, values),
    ]:
        assert isinstance(expression.owner.op, kind), kind
        assert not isinstance(T.dot(x, x).owner.op, kind), kind
        np.testing.assert_allclose(value(expression, {x: values}), wanted, atol=1e-12)
    for expression, wanted in [
        (extra.RepeatOp(0)(x, 2), values.repeat(2, 0)),
        (extra.DiffOp(1, 0)(x), np.diff(values, 1, 0)),
        (extra.fill_diagonal_(x, 7.0), [[7, 1], [1, 7]]),
        (extra.RavelMultiIndex()([1, 0], [1, 1], (2, 3)), [4, 1]),
        (extra.UnravelIndex(ndim=2)(4, (2, 3))[1], 1),
        (extra.Unique(return_counts=True)(x)[1], [2, 1, 1]),
        (extra.Bartlett()(3), [0, 1, 0]),
        (nlinalg.MatrixPinv()(x), np.linalg.pinv(values)),
        (sorting.TopKOp()(x, 1)[0], [[4], [3]]),
        (sorting.TopKOp(return_values=False)(x, 1), [[0], [1]]),
        (slinalg.cho_solve((factor, True), [1.0, 2.0]), np.linalg.solve(values, [1.0, 2.0])),
        (slinalg.cho_solve((factor.T, False), [1.0, 2.0]), np.linalg.solve(values, [1.0, 2.0])),
        (ops.ViewOp()(x), values),
        (ops.deep_copy_op(x), values),
        (ops.Shape_i(1)(x), 2),
        (snug.ifelse.IfElse(1)(k, x, x + 1), values + 1),
        (snug.ifelse.IfElse(2)(k, x, x, x, x + 1)[1], values + 1),
    ]:
        given = {a: b for a, b in ((x, values), (k, 0)) if a in inputs([expression])}
        np.testing.assert_allclose(value(expression, given), wanted)
    with pytest.raises(ValueError, match="3 expressions for twice 2"):
        snug.ifelse.IfElse(2)(k, x, x, x)
    with pytest.raises(ValueError, match="choose 'add' or 'mul'"):
        extra.CumOp(0, "sub")(x)
