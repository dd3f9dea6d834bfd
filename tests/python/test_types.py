"""Types, variables, constants and shared variables as Theano's programs use them."""

import warnings

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import _core

LETTERS = {"b": "int8", "w": "int16", "i": "int32", "l": "int64", "f": "float32", "d": "float64"}
KINDS = {"scalar": 0, "vector": 1, "matrix": 2, **{f"tensor{n}": n for n in range(3, 8)}}


@pytest.mark.parametrize("kind", KINDS)
def test_constructors(kind):
    for letter, dtype in {"": "float32", **LETTERS}.items():
        v = getattr(T, letter + kind)("v")
        assert (v.dtype, v.ndim, v.name) == (dtype, KINDS[kind], "v")
        assert v.broadcastable == (False,) * KINDS[kind]
        plural = getattr(T, letter + ("matrices" if kind == "matrix" else kind + "s"))
        assert [p.name for p in plural("a", "b")] == ["a", "b"]
        assert [p.name for p in plural("a b")] == ["a", "b"]
        assert [p.name for p in plural("ab")] == ["a", "b"]
        assert len(plural(3)) == 3 and all(p.dtype == dtype for p in plural(3))


def test_tensor_types():
    t = T.TensorType("float32", (False, True))
    assert t == T.fcol
    assert t.ndim == 2 and t.broadcastable == (False, True) and t.dtype == "float32"
    assert t != T.TensorType("float64", (False, True)) and t != T.TensorType("float32", (False,))
    assert hash(t) == hash(T.TensorType("float32", [False, True]))
    assert str(t) == "TensorType(float32, col)"
    assert t("v").type == t and t.make_variable("v").name == "v"
    assert t.clone(dtype="int8").dtype == "int8" and t.clone(broadcastable=(False,)).ndim == 1
    assert T.type.TensorType is T.TensorType is snug.tensor.TensorType


def test_filter():
    t = T.fvector
    np.testing.assert_array_equal(t.filter([1, 2]), [1, 2])
    assert t.filter([1, 2]).dtype == "float32"
    with pytest.raises(TypeError):
        t.filter(np.zeros(2))
    assert t.filter(np.zeros(2), allow_downcast=True).dtype == "float32"
    with pytest.raises(TypeError):
        t.filter([1, 2], strict=True)
    with pytest.raises(TypeError):
        t.filter(np.zeros((2, 2), "f"))
    assert t.is_valid_value(np.zeros(2, "f")) and not t.is_valid_value(np.zeros(2))
    storage = np.zeros(2, "f")
    assert t.filter_inplace([1, 2], storage) is storage and storage[1] == 2


def test_conversions_of_types():
    matrix, row = T.fmatrix, T.frow
    assert matrix.is_super(row) and matrix.is_super(matrix) and not row.is_super(matrix)
    r = row("r")
    assert matrix.convert_variable(r).type == matrix
    assert row.convert_variable(matrix("m")) is None
    assert matrix.filter_variable(r).broadcastable == (False, False)
    assert matrix.filter_variable([[1, 2]]).dtype == "float32"
    with pytest.raises(TypeError):
        row.filter_variable(matrix("m"))
    assert matrix.value_zeros((2, 3)).shape == (2, 3)


def test_equal_values():
    t = T.dvector
    a = np.array([1.0, np.nan])
    assert t.values_eq(a, a.copy()) and not t.values_eq(a, a + 1)
    assert not t.values_eq(a, a.astype("f"))
    assert t.values_eq_approx(a, a + 1e-12) and not t.values_eq_approx(a, a + 1)
    assert not t.values_eq_approx(a, np.zeros(3))
    assert T.ivector.values_eq_approx(np.array([1], "i"), np.array([1], "i"))


def test_variables():
    x = T.matrix("x")
    y = T.exp(x)
    assert x.owner is None and x.index is None and x.get_parents() == []
    assert y.owner.op.name == "exp" and y.owner.inputs == [x] and y.index == 0
    assert y.get_parents() == [y.owner] and y.owner.outputs == [y]
    x.tag.test_value = np.ones((2, 2), "f")
    c = x.clone()
    assert c is not x and c.type == x.type and c.name == "x" and c.tag.test_value.shape == (2, 2)
    assert T.constant(3).clone().data == 3


def test_classes():
    s, c, x = snug.shared(1.0), T.constant(1), T.scalar()
    for v in (s, c, x):
        assert isinstance(v, snug.Variable)
    assert isinstance(s, T.sharedvar.TensorSharedVariable)
    assert isinstance(s, snug.compile.SharedVariable) and not isinstance(s, T.TensorConstant)
    assert isinstance(c, T.TensorConstant) and not isinstance(c, T.TensorVariable)
    assert isinstance(x, T.TensorVariable) and not isinstance(x, snug.SharedVariable)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.0, "float64"),
        (1, "int64"),
        (True, "bool"),
        (np.float32(1), "float32"),
        (np.int8(1), "int8"),
        (np.zeros(2, "i"), "int32"),
    ],
)
def test_shared(value, dtype):
    s = snug.shared(value, "s")
    assert s.dtype == dtype and s.ndim == np.ndim(value) and s.name == "s"
    assert s.broadcastable == (False,) * s.ndim


def test_methods_of_shared_variables():
    s = snug.shared(np.ones((2, 3), "f"), borrow=True, target="cpu")
    assert s.get_value(borrow=True, return_internal_type=True).shape == (2, 3)
    s.container.value = np.full((1, 2), 5, "f")
    assert s.get_value().shape == (1, 2) and s.container.data[0, 0] == 5
    assert s.container.storage[0].shape == (1, 2)
    s.zero()
    np.testing.assert_array_equal(s.get_value(), [[0, 0]])
    s.set_value(np.ones((1, 1), "f"), borrow=True)


def test_clones_of_shared_variables_have_one_value():
    mean = snug.shared(np.zeros(2, "f"), "mean")
    running = snug.clone(mean, share_inputs=False)
    assert running is not mean and isinstance(running, snug.SharedVariable)
    x = T.vector("x")
    running.default_update = 0.5 * running + 0.5 * x
    f = snug.function([x], x - mean + 0 * running)
    np.testing.assert_array_equal(f([2, 4]), [2, 4])
    np.testing.assert_array_equal(mean.get_value(), [1, 2])
    np.testing.assert_array_equal(f([2, 4]), [1, 2])
    y = snug.clone(x + mean, share_inputs=False)
    assert x not in _core.ancestors([y]) and mean not in _core.ancestors([y])
    with pytest.raises(ValueError, match="updated twice"):
        snug.function([], updates=[(mean, mean + 1), (running, running + 1)])


def test_shared_constructors():
    class Mine:
        pass

    @snug.shared_constructor
    def make(value, name, strict, allow_downcast, **kwargs):
        if not isinstance(value, Mine):
            raise TypeError
        return snug.shared(np.zeros(3), name)

    try:
        assert snug.shared(Mine(), "m").name == "m"
        assert snug.shared(1.0).ndim == 0
    finally:
        snug.shared_constructor(make, remove=True)
    with pytest.raises(TypeError, match="did you mean 'borrow'"):
        snug.shared(1.0, borow=True)


def test_cast_policy():
    x, n = T.fvector(), T.ivector()
    assert (x * n).dtype == "float64"
    with snug.config.change_flags(cast_policy="numpy+floatX"):
        assert (x * n).dtype == "float32" and (n + 1.0).dtype == "float32"
        assert (T.bvector() + 1).dtype == "int64" and T.constant(1).dtype == "int64"
        assert (x * T.dvector()).dtype == "float64"
        f = snug.function([x, n], x * n)
    assert f([1.5], np.array([2], "i")) == [3]
    with pytest.raises(ValueError, match="cast_policy"):
        snug.config.cast_policy = "numpy"


def test_int_division():
    a, b = T.iscalars("ab")
    assert (a / b).dtype == "float32"
    with snug.config.change_flags(int_division="int"):
        assert (a / b).dtype == "int32"
    with snug.config.change_flags(int_division="raise"):
        with pytest.raises(TypeError, match="int_division"):
            a / b
        assert (a / 2.0).dtype == "float64"


def test_test_values():
    x, w = T.matrix("x"), snug.shared(np.ones((3, 2), "f"), "w")
    x.tag.test_value = np.ones((4, 3), "f")
    with snug.config.change_flags(compute_test_value="raise"):
        y = T.dot(x, w) * 2
        np.testing.assert_array_equal(y.tag.test_value, np.full((4, 2), 6))
        np.testing.assert_array_equal(snug.get_test_value(y), np.full((4, 2), 6))
        assert T.nnet.softmax(y).tag.test_value.shape == (4, 2)
        with pytest.raises(ValueError, match="dot"):
            T.dot(w, x)
        with pytest.raises(AttributeError, match="z has no test value"):
            T.vector("z") + 1
        rows, _ = snug.map(lambda row: row.sum(), x)
        np.testing.assert_array_equal(rows.tag.test_value, [3] * 4)
        g = T.grad(y.sum(), w)
        np.testing.assert_array_equal(g.tag.test_value, np.full((3, 2), 8))
    with snug.config.change_flags(compute_test_value="warn"), pytest.warns(UserWarning, match="z"):
        T.vector("z") + 1
    with snug.config.change_flags(compute_test_value="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        T.vector("z") + 1
    assert not hasattr((x + 1).tag, "test_value")
    assert snug.get_test_value(3) == 3
    with pytest.raises(AttributeError):
        snug.get_test_value(T.vector())


def test_warn_float64():
    x = T.dvector()
    with snug.config.change_flags(warn_float64="warn"), pytest.warns(UserWarning, match="float64"):
        x + 1
    with snug.config.change_flags(warn_float64="raise"):
        with pytest.raises(TypeError, match="float64"):
            x + 1
        T.fvector() + 1


def test_settings_are_checked_when_set():
    for text in ("xx", "4XB", "?"):
        with pytest.raises(ValueError, match="memory"):
            snug.config.memory = text
    for mode in ("FAST_RUN", "FAST_COMPILE", "DebugMode", "NanGuardMode", "Mode", "fast"):
        with snug.config.change_flags(mode=mode):
            pass
    with pytest.raises(ValueError, match="FAST_RUN"):
        snug.config.mode = "FAST_RNU"


def test_wrong_arguments_read_like_ours():
    a = T.vector("a")
    with pytest.raises(TypeError, match="switch: missing"):
        T.switch(a)
    with pytest.raises(TypeError, match="set_value"):
        snug.shared(1.0).set_value(None)
    with pytest.raises(TypeError, match="name"):
        T.matrix(5)
    with pytest.raises(TypeError, match="exp"):
        T.exp(a, b=2)


def test_known_sizes():
    """Sizes as Aesara and PyTensor spell them: None is not known, 1 stretches."""
    for t in [
        T.TensorType("float32", (None, 3)),
        T.TensorType("float32", [None, np.int64(3)]),
        T.TensorType("float32", shape=(None, 3)),
        T.TensorType("float32", (False, False), shape=(None, 3)),
        T.matrix("x", shape=(None, 3)).type,
        T.fmatrix("x", shape=(None, 3)).type,
        T.tensor("float32", shape=(None, 3)).type,
        T.fmatrix.make_variable("x", shape=(None, 3)).type,
        T.matrix(dtype="float32", shape=(None, 3)).type,
        T.TensorType("float64", shape=(None, 3)).clone(dtype="float32"),
        T.fmatrix.clone(shape=(None, 3)),
    ]:
        assert (t.dtype, t.shape, t.broadcastable) == ("float32", (None, 3), (False, False))
    x = T.tensor4("x", shape=(None, 1, 28, 28))
    assert x.type.shape == (None, 1, 28, 28) and x.broadcastable == (False, True, False, False)
    assert T.TensorType("float32", (None, 1)) == T.fcol
    assert T.TensorType("int8", (0, 1)).broadcastable == (False, True)  # Theano's flags
    assert T.TensorType("int8", (0, 1)).shape == (None, 1)
    assert T.TensorType("int8", shape=(0, 1)).shape == (0, 1)
    assert T.TensorType("int8", (None, True)).broadcastable == (False, True)
    assert T.tensor("int8", (False, False), shape=(1, 2)).broadcastable == (False, False)
    assert T.row("r", shape=(1, 4)).type.shape == (1, 4)
    assert T.matrix("x", shape=(2, 3)).sum(0).type.shape == (3,)


def test_known_sizes_are_checked():
    x = T.fmatrix("x", shape=(None, 3))
    f = snug.function([x], x * 2)
    np.testing.assert_array_equal(f(np.ones((2, 3), "float32")), np.full((2, 3), 2, "float32"))
    for wrong in [np.ones((2, 4), "float32"), np.ones((2, 4), "int8"), [[1.0] * 4]]:
        with pytest.raises(TypeError, match=r"axis 1 has size 3, not 4|size 4 on axis 1.*says 3"):
            f(wrong)
    assert not x.type.is_valid_value(np.ones((2, 4), "float32"))
    assert x.type.is_valid_value(np.ones((2, 3), "float32"))
    for make, text in [
        (lambda: T.TensorType("int8", shape=(-1, 2)), "negative"),
        (lambda: T.TensorType("int8", (False,), shape=(1, 2)), "2 entries for 1 dim"),
        (lambda: T.TensorType("int8", (True,), shape=(2,)), "its size is 1, not 2"),
        (lambda: T.vector("x", shape=(2, 3)), "2 entries for 1 dim"),
        (lambda: T.row("x", shape=(2, 3)), "axis 0 has size 1, not 2"),
    ]:
        with pytest.raises(ValueError, match=text):
            make()
    for make in [
        lambda: T.TensorType("int8", (None, 2.5)),
        lambda: T.TensorType("int8"),
        lambda: T.TensorType("int8", 3),
    ]:
        with pytest.raises(TypeError):
            make()
