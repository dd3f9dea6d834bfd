"""Expressions as Python objects: identity, attributes, classes, garbage, origins, settings."""

import gc
import inspect
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import _core


class Thing:
    """Something that can be watched dying."""


def collected(make):
    """True if what `make` returns a weak reference to is garbage afterwards."""
    ref = make()
    gc.collect()
    return ref() is None


# ---- identity


def test_one_object_per_expression():
    x = T.matrix("x")
    y = T.exp(x)
    assert y.owner.inputs[0] is x
    assert y.owner.outputs[0] is y
    assert y.owner is y.owner
    assert x.owner is None


def test_identity_outlives_python_references():
    x = T.vector("x")
    x.note = "kept"
    y = x + x
    del x
    gc.collect()
    assert y.owner.inputs[0].note == "kept"
    assert y.owner.inputs[0] is y.owner.inputs[1]


def test_equality_is_identity():
    x, y = T.vectors("x", "y")
    assert x == x and (x == y) is False and x != y
    assert (x == np.ones(3)) is False
    assert (np.ones(3) == x) is False
    assert {x: 1, y: 2}[x] == 1
    assert x in [y, x]
    assert hash(x) == hash(x)


def test_attributes_and_weak_references():
    x = T.vector()
    x._keras_shape = (1, 2)
    assert x._keras_shape == (1, 2) and vars(x) == {"_keras_shape": (1, 2)}
    x.tag.test_value = 3
    assert x.tag.test_value == 3
    ref = weakref.ref(x)
    assert ref() is x
    del x
    assert ref() is None


def test_name():
    x = T.vector()
    assert x.name is None
    x.name = "x"
    assert x.name == "x" and str(x) == "x"
    x.name = None
    assert x.name is None
    with pytest.raises(TypeError, match="name"):
        x.name = 3


def test_classes():
    x = T.vector("x")
    c = T.constant(1)
    s = snug.shared(np.ones(2, "float32"))
    for v in (x, c, s, x + 1):
        assert isinstance(v, snug.Variable)
    assert type(x) is T.TensorVariable and type(x + 1) is T.TensorVariable
    assert type(c) is T.TensorConstant and not isinstance(c, T.TensorVariable)
    assert type(s) is T.sharedvar.TensorSharedVariable and isinstance(s, snug.SharedVariable)
    assert not isinstance(s, T.TensorVariable) and not isinstance(x, snug.SharedVariable)
    assert isinstance((x + 1).owner, snug.Apply)
    with pytest.raises(TypeError):
        T.TensorVariable()


def test_truth():
    x, y = T.vectors("xy")
    assert bool(x) and bool(T.eq(x, y)) and bool(x + y)
    for comparison in (x < y, x <= y, x > y, x >= y):
        assert comparison.dtype == "bool"
        with pytest.raises(TypeError, match="boolean"):
            bool(comparison)
    with pytest.raises(TypeError):
        x < y < 2  # noqa: B015


def test_iteration_and_length():
    x = T.tensor3("x")
    rows, columns, planes = x.shape
    assert rows.ndim == 0 and rows.dtype == "int64" and planes is not columns
    assert len(list(T.constant([1, 2, 3]))) == 3
    for bad in (x, T.vector("v"), T.scalar("s")):
        with pytest.raises(TypeError):
            iter(bad)
        with pytest.raises(TypeError):
            len(bad)
    with pytest.raises(TypeError):
        sum(T.vector("v"))


def test_numpy_arrays_do_not_take_over():
    x = T.vector("x")
    a = np.arange(3.0, dtype="float32")
    for result in (a + x, a - x, a * x, a / x, a**x, a < x, a // x, a % x, np.float32(2) * x):
        assert isinstance(result, T.TensorVariable)
    for result in (x + a, (1.0, 2.0) * x, x * (1, 2), 2 - x, 2.0 / x, 2**x, -x, +x, abs(x)):
        assert isinstance(result, T.TensorVariable)
    m = T.matrix("m")
    assert (m @ m).ndim == 2 and (np.ones((2, 2), "float32") @ m).ndim == 2


def test_operators_refuse_strangers():
    x = T.vector("x")
    with pytest.raises(TypeError):
        x + "a"
    with pytest.raises(TypeError):
        x + object()
    with pytest.raises(TypeError):
        None * x
    with pytest.raises(TypeError, match="True"):
        x + True


def test_repr_is_short():
    x, y = T.vectors("x", "y")
    assert str(x + y) == "Elemwise{add,no_inplace}.0"
    assert "float32" in str(T.matrix())


# ---- types


def test_types():
    t = T.TensorType("float32", (False, True))
    assert t == T.fcol and hash(t) == hash(T.fcol) and t != T.fmatrix and t != 3
    assert t.dtype == "float32" and t.ndim == 2 and t.broadcastable == (False, True)
    assert str(t) == "TensorType(float32, col)"
    assert T.matrix("x").type == T.fmatrix
    assert T.dmatrix("x").type == T.TensorType("float64", (0, 0))
    x = t("x")
    assert x.type == t and x.name == "x" and x.broadcastable == (False, True)
    y = x.type()
    assert y is not x and y.type == x.type
    assert x.clone().type == x.type and x.clone() is not x
    assert T.TensorType("bool", ())("b").dtype == "bool"
    assert T.tensor("float64", (False, True), "t").type == T.dcol
    assert T.tensor("float32", shape=(None, 3)).static_shape == (None, 3)
    assert t.clone(dtype="int8").dtype == "int8"
    assert T.fvector.numpy_dtype == np.dtype("float32")
    with pytest.raises(TypeError, match="float32"):
        T.TensorType("flaot32", ())


@pytest.mark.parametrize(
    "letter, dtype",
    [
        ("b", "int8"),
        ("w", "int16"),
        ("i", "int32"),
        ("l", "int64"),
        ("f", "float32"),
        ("d", "float64"),
        ("", "float32"),
    ],
)
def test_constructors(letter, dtype):
    patterns = {
        "scalar": (),
        "vector": (False,),
        "row": (True, False),
        "col": (False, True),
        "matrix": (False, False),
        "tensor3": (False,) * 3,
        "tensor4": (False,) * 4,
    }
    for kind, pattern in patterns.items():
        x = getattr(T, letter + kind)("x")
        assert (x.dtype, x.broadcastable, x.name) == (dtype, pattern, "x")
        assert getattr(T, letter + kind)().name is None


def test_constructors_take_a_dtype():
    assert T.matrix("x", dtype="int32").dtype == "int32"
    assert T.vector(dtype=np.float64).dtype == "float64"


def test_plurals():
    assert [v.name for v in T.matrices("a", "b")] == ["a", "b"]
    assert [v.name for v in T.dmatrices("a b")] == ["a", "b"]
    assert [v.name for v in T.fvectors("xyz")] == ["x", "y", "z"]
    assert [v.dtype for v in T.iscalars(2)] == ["int32", "int32"]


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = T.vector("x", dtype="bfloat16")
    assert x.dtype == "bfloat16" and x.type.numpy_dtype == ml_dtypes.bfloat16
    s = snug.shared(np.ones(3, ml_dtypes.bfloat16))
    assert s.dtype == "bfloat16" and s.get_value().dtype == ml_dtypes.bfloat16


# ---- constants


@pytest.mark.parametrize(
    "value, dtype",
    [
        (1, "int8"),
        (-129, "int16"),
        (1000, "int16"),
        (100000, "int32"),
        (2**40, "int64"),
        (2**63, "uint64"),
        (1.0, "float32"),
        (0.1, "float32"),
        (np.float64(1), "float64"),
        (np.float32(1), "float32"),
        (np.array(1.0), "float64"),
        ([1, 2], "int64"),
        ([1.0, 2.0], "float64"),
        (np.int8([1]), "int8"),
        (np.bool_(True), "bool"),
        ([], "float32"),
    ],
)
def test_constant_dtype(value, dtype):
    assert T.constant(value).dtype == dtype
    assert T.as_tensor_variable(value).dtype == dtype


def test_constants():
    c = T.constant([[1, 2, 3]], name="c", dtype="float32")
    assert (c.name, c.dtype, c.broadcastable) == ("c", "float32", (True, False))
    np.testing.assert_array_equal(c.data, [[1, 2, 3]])
    with pytest.raises(ValueError):
        c.data[0, 0] = 5
    assert T.constant(3, ndim=2).broadcastable == (True, True)
    with pytest.raises(ValueError, match="64 bits"):
        T.constant(2**70)
    with snug.config.change_flags(floatX="float64"):
        assert T.constant(1.0).dtype == "float32" and T.constant(0.1).dtype == "float64"


def test_as_tensor_variable():
    x, y = T.scalars("x", "y")
    v = T.as_tensor_variable([x, y, 3])
    assert v.ndim == 1 and v.static_shape == (3,)
    assert T.as_tensor_variable([[x, y], [y, x]]).ndim == 2
    assert T.as_tensor_variable(x) is x
    assert T.as_tensor_variable(3, ndim=1).ndim == 1
    for bad in (True, object(), None, "a", np.array(["a"])):
        with pytest.raises(TypeError):
            T.as_tensor_variable(bad)


# ---- garbage


def test_cycle_through_an_attribute():
    def make():
        x = T.vector("x")
        x.later = T.exp(x) * 2 + T.dot(x, x)
        x.thing = Thing()
        return weakref.ref(x.thing)

    assert collected(make)


def test_cycle_through_nodes_without_an_object():
    def make():
        x = T.matrix("x")
        x.later = T.nnet.softmax(x).mean()  # built in C++: the inner nodes have no object yet
        x.thing = Thing()
        return weakref.ref(x.thing)

    assert collected(make)


def test_cycle_through_gradients():
    def make():
        w = snug.shared(np.ones((3, 3), "float32"), "w")
        b = snug.shared(np.ones(3, "float32"), "b")
        x = T.matrix("x")
        cost = T.nnet.softmax(T.tanh(T.dot(x, w) + b)).var()
        w.gradients = T.grad(cost, [w, b])  # both share nodes
        b.gradients = w.gradients
        w.thing = Thing()
        return weakref.ref(w.thing)

    assert collected(make)


def test_cycle_through_a_default_update():
    def make():
        s = snug.shared(0)
        s.default_update = s + 1
        s.thing = Thing()
        return weakref.ref(s.thing)

    assert collected(make)


def test_cycle_through_a_function():
    def make():
        w = snug.shared(np.zeros(3, "float32"), "w")
        n = T.lscalar("n")
        w.step = snug.function([], [], updates=[(w, w + 1)])
        w.staged = snug.function([n], T.arange(T.cast(w.sum(), "int64") + n))
        w.step()
        w.staged(2)
        w.thing = Thing()
        return weakref.ref(w.thing)

    assert collected(make)


def test_cycle_through_indexing():
    def make():
        x = T.matrix("x")
        i = T.ivector("i")
        i.picked = T.inc_subtensor(x[i, 1:], 1.0)
        i.thing = Thing()
        return weakref.ref(i.thing)

    assert collected(make)


def test_cycle_through_a_loop():
    def make():
        x = T.vector("x")
        w = T.scalar("w")
        w.result, _ = snug.map(lambda e: e * w, x)
        w.thing = Thing()
        return weakref.ref(w.thing)

    assert collected(make)


def test_what_is_reachable_is_kept():
    x = T.matrix("x")
    x.later = T.nnet.softmax(x).mean()
    x.thing = Thing()
    ref = weakref.ref(x.thing)
    y = x.later
    del x
    for _ in range(3):
        gc.collect()
    assert ref() is not None
    (found,) = [v for v in _core.ancestors([y]) if v.owner is None and v.name == "x"]
    assert found.thing is ref() and found.later is y


def test_no_object_is_left_behind():
    def round_trip():
        x = T.matrix("x")
        y = T.nnet.softmax(T.dot(x, x.T)[1:, ::2]).sum()
        g = T.grad(y, x)
        g.name = "g"
        return [v.name for v in _core.ancestors([g])]

    def count():
        gc.collect()
        return sum(isinstance(o, (snug.Variable, snug.Apply)) for o in gc.get_objects())

    round_trip()
    before = count()
    for _ in range(20):
        round_trip()
    assert count() == before


def test_chain_of_100000():
    program = """
        import gc
        import snug, snug.tensor as T
        x = T.scalar("x")
        y = x
        for _ in range(100_000):
            y = y * 1.5
        assert y.owner.inputs[0].owner is not None
        gc.collect()
        del y
        y = x
        for _ in range(100_000):
            z = y + 1.0
            z.before = y   # a second chain, of attributes
            y = z
        x.last = y
        del x, y, z
        gc.collect()
        v = T.vector("v")
        for _ in range(20_000):
            v = v[0:]
        del v
        gc.collect()
        print("done")
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True
    )
    assert result.stdout.strip() == "done", result.stderr[-2000:]


# ---- origins


def test_origin_is_the_user_line():
    x = T.matrix("x")
    line = inspect.currentframe().f_lineno + 1
    y = T.nnet.softmax(x)
    assert y.origin[0] == (__file__, line, "test_origin_is_the_user_line")
    z = x.sum(axis=0)
    assert z.origin[0][:2] == (__file__, line + 2)
    w = x[1:] * 2
    assert w.origin[0][:2] == (__file__, line + 4)
    assert len(w.origin) <= 8


def test_origin_has_the_callers():
    def layer(x):
        return T.tanh(x)

    line = inspect.currentframe().f_lineno + 1
    y = layer(T.matrix("x"))
    assert y.origin[0][2] == "layer"
    assert y.origin[1][:2] == (__file__, line)


def test_origin_inside_a_loop_body():
    lines = []

    def body(e):
        lines.append(inspect.currentframe().f_lineno + 1)
        r = T.exp(e)
        lines.append(r.origin[0])
        return r

    snug.map(body, T.vector("x"))
    assert lines[1] == (__file__, lines[0], "body")


def test_errors_name_the_line():
    x, y = T.matrix("x"), T.tensor3("y")
    line = inspect.currentframe().f_lineno + 2
    with pytest.raises((TypeError, ValueError)) as info:
        T.concatenate([x, y])
    assert f"{__file__}:{line}" in str(info.value)


# ---- settings


def test_config():
    assert snug.config.floatX == "float32"
    snug.config.floatX = "float64"
    assert T.matrix().dtype == "float64"
    with pytest.raises(ValueError, match="float64"):
        snug.config.floatX = "int8"
    assert snug.config.floatX == "float64"
    with pytest.raises(AttributeError, match="floatX"):
        _ = snug.config.floatx
    with pytest.raises(AttributeError, match="memory"):
        snug.config.memry = 3
    with pytest.raises(ValueError):
        snug.config.device = "cuda"
    with pytest.raises(ValueError):
        snug.config.memory = 1.5
    with snug.config.change_flags(floatX="float32"):
        assert T.matrix().dtype == "float32"
    assert snug.config.floatX == "float64"
    assert "floatX" in str(snug.config)


def test_docs_come_from_the_rows():
    docs = _core.op_docs()
    assert all(docs.values())
    assert docs["exp"] in T.exp.__doc__ and docs["argmax"]
    for name in T.__all__ if hasattr(T, "__all__") else dir(T):
        value = getattr(T, name)
        if callable(value) and not name.startswith("_"):
            assert value.__doc__, name
