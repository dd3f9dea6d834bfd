"""Compiled functions: arguments, results, updates, givens, threads, memory, errors."""

import gc
import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

import snug
import snug.tensor as T

f32 = "float32"


def ones(*shape, dtype=f32):
    return np.ones(shape, dtype)


# ---- what a call returns


def test_kinds_of_outputs():
    x = T.vector("x")
    a = np.float32([1, 2, 3])
    single = snug.function([x], x * 2)(a)
    assert type(single) is np.ndarray and single.tolist() == [2, 4, 6]
    zero = snug.function([x], x.sum())(a)
    assert type(zero) is np.ndarray and zero.shape == () and zero == 6
    several = snug.function([x], [x * 2, x.sum()])(a)
    assert type(several) is list and len(several) == 2
    several[0] = None
    assert type(snug.function([x], [x])(a)) is list
    assert type(snug.function([x], (x,))(a)) is list
    named = snug.function([x], {"a": x, "b": x.sum()})(a)
    assert list(named) == ["a", "b"] and named["b"] == 6
    assert snug.function([], [])() == []
    assert snug.function([], None)() == []
    assert snug.function([])() == []
    assert snug.function([x], snug.Out(x + 1, borrow=True))(a).tolist() == [2, 3, 4]
    assert snug.function([], T.constant(3))() == 3
    same = snug.function([x], [x, x])(a)
    assert same[0] is not same[1] and not np.shares_memory(*same)


def test_outputs_are_the_callers():
    x = T.vector("x")
    s = snug.shared(ones(3))
    f = snug.function([x], [x, s, x + s], updates=[(s, s + x)])
    a = ones(3)
    first = f(a)
    kept = [r.copy() for r in first]
    for _ in range(5):
        f(a)
    for before, now in zip(kept, first):
        np.testing.assert_array_equal(before, now)
    first[0][:] = 9
    assert a.tolist() == [1, 1, 1]
    for r in first:
        assert r.flags.c_contiguous and r.flags.writeable and r.flags.aligned


@settings(max_examples=40, deadline=None)
@given(hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9))
def test_changing_shapes(shape):
    f = changing()
    a = np.arange(np.prod(shape), dtype=f32).reshape(shape)
    doubled, total = f(a)
    np.testing.assert_array_equal(doubled, a.T * 2)
    np.testing.assert_array_equal(total, a.sum(0))


def changing(cache=[]):  # noqa: B006
    if not cache:
        x = T.matrix("x")
        cache.append(snug.function([x], [x.T * 2, x.sum(axis=0)]))
    return cache[0]


def test_sizes_known_only_while_running():
    x = T.vector("x")
    f = snug.function([x], [x[x > 0], (x > 0).nonzero()[0], x.sum()])
    for a in (np.float32([1, -1, 2]), np.float32([-1, -2, -3]), np.float32([]), np.float32([5])):
        picked, places, total = f(a)
        np.testing.assert_array_equal(picked, a[a > 0])
        np.testing.assert_array_equal(places, (a > 0).nonzero()[0])
        assert picked.flags.c_contiguous and total == a.sum()


# ---- arguments


def test_positions_and_keywords():
    x, y, z = T.scalars("x", "y", "z")
    f = snug.function([x, y, snug.In(z, value=100.0)], x - y * 10 + z, name="f")
    assert f(1, 2) == 81 and f(1, y=2) == 81 and f(y=2, x=1) == 81
    assert f(1, 2, 3) == -16 and f(1, 2, z=3) == -16 and f(1, z=3, y=2) == -16
    for call, text in [
        (lambda: f(1), "y"),
        (lambda: f(z=1), "x, y"),
        (lambda: f(), "x, y"),
        (lambda: f(1, 2, 3, 4), "3 argument"),
        (lambda: f(1, 2, x=1), "x"),
        (lambda: f(1, 2, w=1), "w"),
        (lambda: f(None, 2), "None"),
    ]:
        with pytest.raises(TypeError, match=text):
            call()
    with pytest.raises(TypeError, match="f"):
        f(1)


def test_default_values():
    x, y = T.scalars("x", "y")
    f = snug.function([x, snug.In(y, name="step", value=2.0)], x + y)
    assert f(1) == 3 and f(1, step=5) == 6
    assert f["step"] == 2 and f[y] == 2 and f[x] is None
    f[y] = 7
    assert f(1) == 8
    with pytest.raises(ValueError):
        _ = f[T.scalar()]
    with pytest.raises(TypeError):
        snug.In(3)


def test_inputs_must_be_a_list_of_variables():
    x = T.scalar("x")
    with pytest.raises(TypeError, match="list"):
        snug.function(x, x)
    with pytest.raises(TypeError):
        snug.function([3], x)
    with pytest.raises(TypeError, match="shared"):
        snug.function([snug.shared(1.0)], x)
    with pytest.raises((ValueError, TypeError)):
        snug.function([x, x], x)


def identity(variable, **options):
    return snug.function([variable], variable, **options)


FILTER = [
    # type, value, accepted with None / False / True
    ("fmatrix", np.ones((2, 2)), (0, 0, 1)),
    ("fmatrix", np.ones((2, 2), f32), (1, 1, 1)),
    ("fmatrix", [[1, 2], [3, 4]], (1, 1, 1)),
    ("fmatrix", [[0.5, 2], [3, 4]], (1, 1, 1)),
    ("fmatrix", [[0.1, 2], [3, 4]], (0, 0, 1)),
    ("fmatrix", np.ones((2, 2), "int8"), (1, 1, 1)),
    ("fmatrix", np.ones((2, 2), "int32"), (0, 0, 1)),
    ("fmatrix", [np.ones(2, f32), np.ones(2, f32)], (1, 1, 1)),
    ("fmatrix", np.ones(2, f32), (0, 0, 0)),
    ("ivector", [1, 2], (1, 1, 1)),
    ("ivector", np.array([1, 2]), (0, 0, 1)),
    ("ivector", np.array([1, 2], "uint8"), (1, 1, 1)),
    ("ivector", np.array([1, 2], "uint32"), (0, 0, 1)),
    ("ivector", [1.0, 2.0], (1, 1, 1)),
    ("ivector", [1.5, 2.0], (0, 0, 1)),
    ("ivector", [2**40], (0, 0, 0)),
    ("bscalar", 300, (0, 0, 0)),
    ("fscalar", 0.1, (1, 0, 1)),
    ("fscalar", 0.5, (1, 1, 1)),
    ("fscalar", np.float64(0.1), (0, 0, 1)),
    ("fscalar", np.float32(0.1), (1, 1, 1)),
    ("fscalar", np.array(0.5), (0, 0, 1)),
    ("fscalar", float("nan"), (1, 1, 1)),
    ("fscalar", 3, (1, 1, 1)),
    ("dscalar", 0.1, (1, 1, 1)),
    ("lscalar", True, (1, 1, 1)),
    ("dvector", np.ones(3, f32), (1, 1, 1)),
    ("dvector", np.ones(3, ">f8"), (1, 1, 1)),
    ("lvector", np.ones(3, "longlong"), (1, 1, 1)),
    ("frow", np.ones((1, 3), f32), (1, 1, 1)),
    ("frow", np.ones((2, 3), f32), (0, 0, 0)),
    ("fcol", np.ones((1, 3), f32), (0, 0, 0)),
]


@pytest.mark.parametrize("kind, value, accepted", FILTER)
def test_filtering(kind, value, accepted):
    for downcast, ok in zip((None, False, True), accepted):
        x = getattr(T, kind)("x")
        f = identity(x, allow_input_downcast=downcast)
        if ok:
            result = f(value)
            assert result.dtype == x.dtype
            np.testing.assert_array_equal(result, np.asarray(value).astype(x.dtype))
        else:
            with pytest.raises(TypeError, match="x"):
                f(value)


def test_python_floats_follow_floatx():
    f = identity(T.fscalar("x"))
    assert f(0.1) == np.float32(0.1)
    snug.config.floatX = "float64"
    with pytest.raises(TypeError):
        f(0.1)


def test_strict_inputs():
    x = T.fvector("x")
    f = identity(snug.In(x, strict=True).variable)
    f = snug.function([snug.In(x, strict=True)], x)
    f(ones(3))
    for bad in ([1, 2, 3], np.ones(3, "int8")):
        with pytest.raises(TypeError):
            f(bad)
    g = snug.function([snug.In(x, allow_downcast=True)], x)
    assert g(np.ones(2)).dtype == f32


def test_variables_are_no_values():
    x = T.vector("x")
    f = identity(x)
    for bad in (x, x + 1, snug.shared(ones(3))):
        with pytest.raises(TypeError, match="variable"):
            f(bad)


def test_layouts_of_arguments():
    x = T.matrix("x")
    f = snug.function([x], [x + 1, x.sum(axis=0)])
    base = np.arange(48, dtype=f32).reshape(6, 8)
    packed = np.zeros(6, dtype=[("pad", "u1"), ("v", f32, (8,))])
    packed["v"] = base
    backwards = base[::-1, ::-1]
    frozen = base.copy()
    frozen.flags.writeable = False
    subclass = base.view(np.matrix)
    for a in (
        base,
        base.T,
        base[::2, 1::3],
        backwards,
        base[:0],
        packed["v"],
        frozen,
        subclass,
        np.broadcast_to(base[0], (6, 8)),
        np.asfortranarray(base),
    ):
        added, summed = f(a)
        np.testing.assert_allclose(added, np.asarray(a) + 1)
        np.testing.assert_allclose(summed, np.asarray(a).sum(0))
        assert type(added) is np.ndarray


DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_in_and_out(dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    x = T.TensorType(dtype, (False, False))("x")
    a = np.array([[0, 1], [1, 5]]).astype(dtype)
    r, t = snug.function([x], [x, x.T])(a)
    assert r.dtype == a.dtype
    np.testing.assert_array_equal(r, a)
    np.testing.assert_array_equal(t, a.T)


class Exporter:
    """Something with __dlpack__ and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack_arguments():
    x = T.matrix("x")
    f = snug.function([x], x * 2)
    a = np.arange(6, dtype=f32).reshape(2, 3)
    np.testing.assert_array_equal(f(Exporter(a)), a * 2)
    np.testing.assert_array_equal(f(Exporter(a.T)), a.T * 2)
    with pytest.raises(TypeError):
        f(Exporter(np.ones((2, 2))))
    np.testing.assert_array_equal((x + Exporter(a)).eval({x: a}), a + a)


def test_dlpack_exports():
    s = snug.shared(np.arange(4, dtype=f32))
    view = np.from_dlpack(s)
    np.testing.assert_array_equal(view, np.arange(4))
    f = snug.function([], [], updates=[(s, s + 1)])
    f()
    np.testing.assert_array_equal(view, np.arange(4))  # while it lives updates go elsewhere
    np.testing.assert_array_equal(s.get_value(), np.arange(4) + 1)
    del s
    gc.collect()
    np.testing.assert_array_equal(view, np.arange(4))
    assert snug.shared(ones(2)).__dlpack_device__() == (1, 0)


# ---- shared variables


def test_shared_types():
    for value, dtype, ndim in [
        (1.0, "float64", 0),
        (1, "int64", 0),
        (np.float32(1), f32, 0),
        (ones(2, 3), f32, 2),
        (np.array(True), "bool", 0),
    ]:
        s = snug.shared(value, "s")
        assert (s.dtype, s.ndim, s.name) == (dtype, ndim, "s")
        assert type(s.get_value()) is np.ndarray
    for bad in ("a", None, T.scalar(), np.array(["a"])):
        with pytest.raises(TypeError):
            snug.shared(bad)


def test_get_and_set_value():
    a = ones(3)
    s = snug.shared(a, "s")
    a[:] = 5
    assert s.get_value().tolist() == [1, 1, 1]
    v = s.get_value()
    v[:] = 7
    assert s.get_value().tolist() == [1, 1, 1]
    s.set_value(np.float32([1, 2, 3, 4]))
    assert s.get_value(borrow=True, return_internal_type=True).shape == (4,)
    assert s.current_shape == (4,)
    for bad in (np.ones(3), ones(2, 2), "a", None, T.vector()):
        with pytest.raises((TypeError, ValueError)):
            s.set_value(bad)
    assert s.get_value().tolist() == [1, 2, 3, 4]
    s.set_value([1, 2])
    assert s.get_value().tolist() == [1, 2]
    loose = snug.shared(ones(3), allow_downcast=True)
    loose.set_value(np.ones(2))
    assert loose.get_value().dtype == f32
    row = snug.shared(ones(1, 3), broadcastable=(True, False))
    with pytest.raises(TypeError):
        row.set_value(ones(2, 3))
    with pytest.raises(ValueError):
        snug.shared(ones(2), broadcastable=(True, False))


def test_borrowed_values():
    s = snug.shared(ones(3))
    f = snug.function([], [], updates=[(s, s * 2)])
    view = s.get_value(borrow=True)
    f()
    f()
    assert view.tolist() == [1, 1, 1] and s.get_value().tolist() == [4, 4, 4]


def test_recipes():
    w = snug.shared(snug.Recipe((30, 40), kind="normal", b=0.1, seed=3), "w")
    assert not w.materialised and w.current_shape == (30, 40) and w.dtype == f32
    x = T.matrix("x")
    f = snug.function([x], T.dot(x, w))
    report = f.memory(x=(5, 30))
    assert report.parameters == 30 * 40 * 4 and not w.materialised
    f(ones(5, 30))
    assert w.materialised and abs(w.get_value().std() - 0.1) < 0.02
    with pytest.raises(ValueError, match="normal"):
        snug.Recipe((2,), kind="normale")
    big = snug.shared(snug.Recipe((100_000, 250_000)))
    g = snug.function([x], T.dot(x, big).sum())
    assert g.memory((10, 100_000)).parameters == 100_000_000_000


# ---- updates and givens


def test_forms_of_updates():
    x = T.scalar("x")
    for wrap in (list, dict, OrderedDict, tuple, lambda pairs: dict(pairs).items()):
        s = snug.shared(np.float32(1), "s")
        f = snug.function([x], s, updates=wrap([(s, s + x)]))
        assert f(2) == 1 and s.get_value() == 3
    s = snug.shared(np.float32(1), "s")
    for bad in ([(s,)], [s], [(s, s, s)], [(x, x)], [(3, x)], [(s, s + 1), (s, s + 2)]):
        with pytest.raises((TypeError, ValueError)):
            snug.function([x], x, updates=bad)
    for bad in (s.astype("float64"), T.vector("v"), T.dscalar("d")):
        with pytest.raises(TypeError):
            snug.function([x], x, updates=[(s, bad)], on_unused_input="ignore")


def test_updates_read_old_values():
    a, b = snug.shared(ones(2) * 1, "a"), snug.shared(ones(2) * 2, "b")
    snug.function([], [], updates=[(a, b), (b, a)])()
    assert a.get_value()[0] == 2 and b.get_value()[0] == 1
    w = snug.shared(np.arange(6, dtype=f32).reshape(2, 3))
    f = snug.function([], w.sum(), updates=[(w, w.T)])
    f()
    np.testing.assert_array_equal(w.get_value(), np.arange(6).reshape(2, 3).T)
    f()
    np.testing.assert_array_equal(w.get_value(), np.arange(6).reshape(2, 3))
    grow = snug.shared(ones(1))
    g = snug.function([], [], updates=[(grow, T.concatenate([grow, grow * 2]))])
    g()
    g()
    assert grow.get_value().tolist() == [1, 2, 2, 4]


def test_default_updates():
    s = snug.shared(0, "s")
    s.default_update = s + 1
    assert s.default_update.owner is not None
    t = snug.shared(0, "t")
    t.default_update = t + s
    f = snug.function([], s)
    f()
    f()
    assert s.get_value() == 2 and t.get_value() == 0
    snug.function([], t)()
    assert s.get_value() == 3 and t.get_value() == 2
    snug.function([], s, no_default_updates=True)()
    assert s.get_value() == 3
    snug.function([], [s, t], no_default_updates=[s])()
    assert s.get_value() == 3 and t.get_value() == 5
    snug.function([], s, updates=[(s, s * 10)])()
    assert s.get_value() == 30
    s.default_update = None
    assert s.default_update is None
    snug.function([], s)()
    assert s.get_value() == 30


def test_givens():
    x, i = T.matrix("x"), T.lscalar("i")
    data = snug.shared(np.arange(20, dtype=f32).reshape(10, 2))
    f = snug.function([i], x.sum(axis=1), givens={x: data[i * 3 : (i + 1) * 3]})
    values = data.get_value()
    for k in range(4):
        np.testing.assert_array_equal(f(k), values[k * 3 : (k + 1) * 3].sum(1))
    assert f.counter("programs") == 1
    y = T.matrix("y")
    g = snug.function([y], x + 1, givens=[(x, y * 2)])
    np.testing.assert_array_equal(g(ones(2, 2)), 3 * ones(2, 2))
    with pytest.raises((ValueError, TypeError)):
        snug.function([y], x + y, givens={x: y + 1, y: x + 1})


# ---- errors


def test_missing_and_unused_inputs():
    x, y = T.vectors("x", "y")
    with pytest.raises(snug.MissingInputError, match="y"):
        snug.function([x], x + y)
    with pytest.raises(snug.UnusedInputError, match="y"):
        snug.function([x, y], x)
    with pytest.warns(UserWarning, match="y"):
        f = snug.function([x, y], x, on_unused_input="warn")
    np.testing.assert_array_equal(f(ones(2), ones(3)), ones(2))
    snug.function([x, y], x, on_unused_input="ignore")
    with pytest.raises(ValueError):
        snug.function([x], x, on_unused_input="maybe")


def test_errors_at_the_call_name_the_line():
    x, y = T.matrices("x", "y")
    line = inspect.currentframe().f_lineno + 1
    z = T.dot(x, y)
    f = snug.function([x, y], z)
    with pytest.raises(ValueError) as info:
        f(ones(2, 3), ones(4, 5))
    assert f"{__file__}:{line}" in str(info.value) and "(2, 3)" in str(info.value)


def test_failed_calls_change_nothing():
    s = snug.shared(ones(3), "s")
    i = T.ivector("i")
    x = T.dmatrix("x")
    f = snug.function([i], s[i], updates=[(s, s + 1)])
    g = snug.function([x], T.slinalg.cholesky(x), updates=[(s, s + 1)])
    with pytest.raises(IndexError):
        f(np.int32([0, 5]))
    with pytest.raises(np.linalg.LinAlgError):
        g(-np.eye(3))
    assert s.get_value().tolist() == [1, 1, 1]
    f(np.int32([0]))
    assert s.get_value().tolist() == [2, 2, 2]


def test_bad_options():
    x = T.vector("x")
    with pytest.raises(ValueError, match="reference"):
        snug.function([x], x, mode="referense")
    with pytest.raises(ValueError):
        snug.function([x], x, memory="lots")
    parameters = inspect.signature(snug.function).parameters
    assert list(parameters)[:12] == [
        "inputs",
        "outputs",
        "mode",
        "updates",
        "givens",
        "no_default_updates",
        "accept_inplace",
        "name",
        "rebuild_strict",
        "allow_input_downcast",
        "profile",
        "on_unused_input",
    ]


@pytest.mark.parametrize("mode", ["fast", "check", "reference", "FAST_RUN", "DebugMode"])
def test_modes(mode):
    x = T.matrix("x")
    s = snug.shared(np.float32(0))
    f = snug.function([x], T.nnet.softmax(x).sum(), updates=[(s, s + x.sum())], mode=mode)
    assert abs(f(ones(3, 2)) - 3) < 1e-5 and s.get_value() == 6


# ---- objects


def test_function_objects():
    x = T.vector("x")
    f = snug.function([x], x, name="copy")
    assert isinstance(f, snug.Function) and f.name == "copy" and "copy" in repr(f)
    assert snug.function([x], x).name is None
    f.note = 3
    f.trust_input = True
    assert f.note == 3 and f.inputs == [x] and callable(f)
    assert [t.dtype for t in f.output_types] == [f32]
    ref = weakref.ref(f)
    f.me = f
    del f
    gc.collect()
    assert ref() is None


def test_eval():
    x, y = T.vectors("x", "y")
    z = x + y * 2
    given = {x: ones(3), y: ones(3)}
    assert z.eval(given).tolist() == [3, 3, 3]
    assert z.eval({y: ones(2), x: ones(2)}).tolist() == [3, 3]
    assert T.constant(2).eval() == 2
    assert (snug.shared(np.float32(2)) + 1).eval() == 3
    s = snug.shared(np.float32(2))
    assert s.eval() == 2 and T.constant([1, 2]).eval().flags.writeable
    s.default_update = s + 1
    assert s.eval() == 2 and s.eval() == 3
    with pytest.raises(snug.MissingInputError):
        z.eval({x: ones(3)})
    ref = weakref.ref(z)
    del z
    gc.collect()
    assert ref() is None


def test_many_inputs_and_outputs():
    xs = T.scalars(*(f"x{i}" for i in range(40)))
    f = snug.function(xs, [x * 2 for x in xs])
    assert [float(v) for v in f(*range(40))] == [2.0 * i for i in range(40)]
    assert [float(v) for v in f(**{f"x{i}": i for i in range(40)})] == [2.0 * i for i in range(40)]


# ---- memory and looking


def test_memory_of_sizes_given_by_values():
    x, y, n = T.vector("x"), T.vector("y"), T.lscalar("n")
    f = snug.function([x, n, y], T.set_subtensor(x[:n], y))
    assert f.memory(x=(5,), n=3, y=(3,)).outputs == 20
    with pytest.raises(ValueError, match="n was taken as 0; give its value"):
        f.memory(x=(5,), n=(), y=(3,))
    start = snug.shared(4)
    g = snug.function([n], T.exp(T.arange(start * n)))
    assert g.memory(n=100).outputs == 8 * 400
    assert "n = 0" in g.memory(n=()).note
    hints = {x: (5,), y: (3,)}
    np.testing.assert_array_equal(
        snug.function([x, n, y], T.set_subtensor(x[:n], y), shapes=hints)(
            np.zeros(5, f32), 3, np.ones(3, f32)
        ),
        [1, 1, 1, 0, 0],
    )


def test_memory():
    x, y = T.matrix("x"), T.ivector("y")
    w = snug.shared(np.zeros((784, 10), f32), "w")
    loss = T.nnet.categorical_crossentropy(T.nnet.softmax(T.dot(x, w)), y).mean()
    f = snug.function([x, y], loss, updates=[(w, w - T.grad(loss, w))])
    m = f.memory(x=(64, 784), y=(64,))
    assert m.inputs == 64 * 784 * 4 + 64 * 4
    assert m.parameters == 784 * 10 * 4 and m.outputs == 4
    assert m.peak >= m.parameters + m.outputs
    assert "parameters" in str(m) and "peak" in str(m)
    assert f.memory((64, 784), 64).peak == m.peak
    assert f.memory((64, 784), y=(64,)).peak == m.peak
    assert f.memory(np.ones((64, 784)), np.ones(64)).peak == m.peak
    assert f.counter("calls") == 0
    for bad in (
        lambda: f.memory(x=(64, 784)),
        lambda: f.memory(x=(64,), y=(64,)),
        lambda: f.memory(z=(3,)),
        lambda: f.memory((1, 784), 1, 1),
    ):
        with pytest.raises(TypeError):
            bad()


def test_budget():
    x = T.matrix("x")
    y = T.dot(T.tanh(T.dot(x, x)), x).sum()
    small = snug.function([x], y, memory="100KB")
    with pytest.raises(MemoryError):
        small(ones(500, 500))
    assert small(ones(10, 10)).shape == ()
    with pytest.raises(MemoryError):
        snug.function([x], y, memory=100_000, shapes={x: (500, 500)})
    with snug.config.change_flags(memory="100KB"):
        f = snug.function([x], y)
    with pytest.raises(MemoryError):
        f(ones(500, 500))


def test_explain_and_debugprint(capsys):
    x = T.matrix("x")
    f = snug.function([x], T.tanh(x) + 1, name="squash")
    f(ones(2, 2))
    text = f.explain()
    assert "squash" in text and "tanh" in text
    snug.debugprint(f)
    assert "tanh" in capsys.readouterr().out


# ---- threads, interrupts


def test_threads_share_a_function():
    x = T.matrix("x")
    total = snug.shared(np.float64(0))
    f = snug.function([x], T.tanh(T.dot(x, x.T)).sum(), updates=[(total, total + 1)])
    a = np.random.default_rng(0).normal(size=(60, 60)).astype(f32)
    expected = f(a)
    wrong = []

    def work():
        for _ in range(50):
            if f(a) != expected:
                wrong.append(1)
            total.get_value()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for k in range(5):
        snug.function([x], x + k + total.astype(f32))(a)
        f.memory((60, 60))
    for t in threads:
        t.join()
    assert not wrong and total.get_value() == 201


def test_gil_is_released():
    x = T.matrix("x")
    y = x
    for _ in range(10):
        y = T.dot(y, x) * 0.01
    f = snug.function([x], y, threads=1)
    a = np.random.default_rng(0).normal(size=(900, 900)).astype(f32)
    f(a)
    running, ticks = True, [0]

    def tick():
        while running:
            ticks[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    before, start = ticks[0], time.perf_counter()
    while time.perf_counter() - start < 0.5:
        f(a)
    after = ticks[0]
    running = False
    thread.join()
    assert after - before > 50


INTERRUPTED = """
    import os, signal, threading, time
    import numpy as np
    import snug, snug.tensor as T
    x = T.matrix("x")
    s = snug.shared(np.float32(0))
    y = x
    for _ in range(500):
        y = T.dot(y, x) * 0.001
    f = snug.function([x], y.sum(), updates=[(s, s + 1)])
    small, large = np.ones((10, 10), "float32"), np.ones((1600, 1600), "float32")
    f(small)
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.perf_counter()
    try:
        f(large)
        print("not interrupted")
    except KeyboardInterrupt:
        print("interrupted", time.perf_counter() - start < 10, float(s.get_value()))
    f(small)
    print("runs again", float(s.get_value()))
"""


def run_program(text):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ,
    )


def test_interrupt():
    result = run_program(INTERRUPTED)
    assert result.stdout.splitlines() == ["interrupted True 1.0", "runs again 2.0"], result


def test_interrupt_with_a_handler_of_the_user():
    result = run_program(
        """
        import os, signal, threading, time
        import numpy as np
        import snug, snug.tensor as T
        seen = []
        signal.signal(signal.SIGINT, lambda *a: seen.append(1))
        x = T.matrix("x")
        y = x
        for _ in range(30):
            y = T.dot(y, x) * 0.001
        f = snug.function([x], y.sum())
        a = np.ones((600, 600), "float32")
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.perf_counter()
        while not seen:
            f(a)
            assert time.perf_counter() - start < 60
        f(a)
        print("done", seen)
        """
    )
    assert result.stdout.strip() == "done [1]", result


def test_interrupt_outside_a_call():
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    x = T.vector("x")
    assert snug.function([x], x.sum())(ones(3)) == 3


# ---- speed


def test_small_calls_are_quick():
    xs = T.fvectors("abcd")
    f = snug.function(xs, xs[0] + xs[1] + xs[2] + xs[3])
    arrays = [np.arange(10, dtype=f32) for _ in range(4)]
    np.testing.assert_array_equal(f(*arrays), 4 * arrays[0])

    def best(call):
        times = []
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(1000):
                call()
            times.append((time.perf_counter() - start) / 1000)
        return min(times)

    a, b = arrays[:2]
    # The goal is 2 microseconds; the benchmarks hold it, this test only catches accidents.
    assert best(lambda: f(*arrays)) - best(lambda: a + b) < 10e-6


def test_calls_leave_nothing_behind():
    x = T.vector("x")
    f = snug.function([x], [x + 1, x.sum(), x[x > 0]])
    a = ones(10)

    def blocks():
        gc.collect()
        return sys.getallocatedblocks()

    for _ in range(10):
        f(a)
    before, counts = blocks(), sys.getrefcount(a)
    for _ in range(200):
        f(a)
        f([1] * 10)
        with pytest.raises(TypeError):
            f(np.ones(3))
    assert blocks() - before < 100 and sys.getrefcount(a) == counts


def test_training():
    rng = np.random.default_rng(0)
    x, y = T.matrix("x"), T.ivector("y")
    w = snug.shared(np.zeros((4, 3), f32), "w")
    b = snug.shared(np.zeros(3, f32), "b")
    p = T.nnet.softmax(T.dot(x, w) + b)
    loss = -T.log(p)[T.arange(y.shape[0]), y].mean()
    gw, gb = T.grad(loss, [w, b])
    train = snug.function([x, y], loss, updates=[(w, w - 0.5 * gw), (b, b - 0.5 * gb)])
    predict = snug.function([x], T.argmax(p, axis=1))
    a = rng.normal(size=(300, 4)).astype(f32)
    k = (a @ rng.normal(size=(4, 3))).argmax(1).astype("int32")
    losses = [float(train(a, k)) for _ in range(300)]
    assert losses[0] == pytest.approx(np.log(3), rel=1e-4) and losses[-1] < 0.25
    assert (predict(a) == k).mean() > 0.95


# ---- the batch in slices


def test_micro_batches():
    rng = np.random.default_rng(0)
    x, y = T.fmatrix("x"), T.ivector("y")
    start = rng.standard_normal((20, 5)).astype(f32)
    arguments = rng.standard_normal((37, 20)).astype(f32), rng.integers(0, 5, 37).astype("int32")

    def train(**options):
        w = snug.shared(start, "w")
        p = T.nnet.softmax(T.dot(x, w))
        loss = T.nnet.categorical_crossentropy(p, y).mean()
        f = snug.function([x, y], [loss, p], updates=[(w, w - T.grad(loss, w))], **options)
        return [*f(*arguments), w.get_value()], f

    whole, f = train()
    slices, g = train(micro_batches=4)
    for a, b in zip(whole, slices):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    large = {"x": (10**6, 20), "y": (10**6,)}
    assert g.memory(**large).arena < f.memory(**large).arena / 2
    assert "in at most 4 slices" in g.explain()
    with pytest.raises(ValueError, match="micro_batches: sub combines rows"):
        snug.function([x], x - x.mean(axis=0), micro_batches=2)


# Expressions of the rows x and their number n, where n is not only the number of rows.
WITH_SIZE = {
    "stretched": lambda x, n: T.alloc(x[:, 0].dimshuffle(0, "x"), n, n).sum(1),
    "sliced up to": lambda x, n: x[:, :n].sum(1),
    "sliced from": lambda x, n: x[:, n:].sum(1),
    "at": lambda x, n: x[:, n],
    "set at": lambda x, n: T.set_subtensor(x[:, n], 0.0),
    "product": lambda x, n: T.dot(T.eye(n, n, 1), x),
    "eye": lambda x, n: (T.eye(n, n, 1) * x[:, 0].dimshuffle(0, "x")).sum(1),
    "float range": lambda x, n: x * T.arange(n, dtype="float32").dimshuffle(0, "x"),
    "integer range": lambda x, n: x * T.arange(n).dimshuffle(0, "x"),
    "mean": lambda x, n: x.sum(0) / n,
    "reshaped": lambda x, n: x.reshape((n, 3, -1)).sum(1),
}


@pytest.mark.parametrize("name", WITH_SIZE)
def test_micro_batches_where_their_size_is_a_value(name):
    x = T.fmatrix("x")
    y = WITH_SIZE[name](x, x.shape[0])
    value = np.random.default_rng(1).standard_normal((10, 12)).astype(f32)
    want = snug.function([x], y)(value)
    for slices in (2, 4, 100):
        got = snug.function([x], y, micro_batches=slices)(value)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_micro_batches_draw_the_numbers_of_the_whole():
    x = T.fmatrix("x")

    def draw(**options):
        stream = T.shared_randomstreams.RandomStreams(3)
        n = x.shape[0]
        y = stream.uniform((n, n)) * x[:, 0].dimshuffle(0, "x")
        return snug.function([x], y, **options)(np.ones((10, 12), f32))

    np.testing.assert_array_equal(draw(), draw(micro_batches=4))


def test_micro_batches_of_integers_alone():
    x = T.ivector("x")
    f = snug.function([x], x * 2, micro_batches=4)
    np.testing.assert_array_equal(f(np.arange(5, dtype="int32")), 2 * np.arange(5))


def test_bias_of_one_element():
    x, w = T.fmatrix("x"), T.fmatrix("w")
    b = T.TensorType("float32", (True,))("b")
    f = snug.function([x, w, b], T.dot(x, w) + b.dimshuffle("x", 0))
    ones = np.ones((64, 128), f32), np.ones((128, 256), f32)
    np.testing.assert_array_equal(f(*ones, np.array([2], f32)), np.full((64, 256), 130))


def test_sizes_divided_by_a_computed_count():
    x, y = T.fvector("x"), T.fvector("y")
    count = (x > 0).nonzero()[0].shape[0]
    f = snug.function([x, y], T.arange(12000 // count) * 2 + y[0].astype("int32"))
    for positive in (1, 3, 6):
        value = np.where(np.arange(6) < positive, 1, -1).astype(f32)
        want = np.arange(12000 // positive) * 2 + 1
        np.testing.assert_array_equal(f(value, np.ones(1, f32)), want)


def test_budget_of_a_deep_network():
    rng = np.random.default_rng(2)
    x = T.fmatrix("x")
    h = x
    weights = [snug.shared(rng.standard_normal((64, 64)).astype(f32) / 10) for _ in range(10)]
    for w in weights:
        h = T.tanh(T.dot(h, w))
    loss = T.sqr(h).mean()
    outputs = [loss, *T.grad(loss, weights)]
    value = rng.standard_normal((2000, 64)).astype(f32)
    free = snug.function([x], outputs)
    peak = free.memory(x=value.shape).peak
    want = free(value)
    for budget in (int(0.9 * peak), int(0.75 * peak), 8 * value.nbytes):
        f = snug.function([x], outputs, memory=budget, micro_batches=1)
        m = f.memory(x=value.shape)
        assert m.recomputed and m.peak <= budget < peak
        for a, b in zip(f(value), want):
            np.testing.assert_array_equal(a, b)  # to the bit
    with pytest.raises(MemoryError, match="a batch of"):
        snug.function([x], outputs, memory=int(peak * 0.2), micro_batches=1)(value)
    in_slices = snug.function([x], outputs, memory=int(peak * 0.2))
    assert in_slices.memory(x=value.shape).micro_batches > 1
    for a, b in zip(in_slices(value), want):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    rows, plan = snug.max_batch(in_slices, x=(1, 64))
    assert rows > 2000 and plan.peak <= int(peak * 0.2)


def test_precision_bfloat16_rounds_products_only():
    x = T.fmatrix()
    w = snug.shared(np.full((4, 2), 1 + 2**-9, "float32"))  # 1 in bfloat16
    f = snug.function([x], [T.dot(x, w), x.sum()], precision="bfloat16")
    product, total = f(np.full((3, 4), 1 + 2**-9, "float32"))
    np.testing.assert_array_equal(product, 4)
    assert total == 12 * (1 + 2**-9)
    with pytest.raises(ValueError, match="precision is 'float16'"):
        snug.function([x], x, precision="float16")


def test_sizes_may_be_wrong_until_the_call():
    """Shared variables may get other sizes, and hints may be of another time."""
    v, w = snug.shared(np.ones((3, 4))), snug.shared(np.ones((5, 2)))
    x, y = T.dmatrix("x"), T.dmatrix("y")
    f = snug.function([], T.dot(v, w))
    g = snug.function([x], T.dot(x, w), shapes={x: (3, 4)})
    h = snug.function([y], T.dot(x, y), givens={x: v})
    k = snug.function([x], T.dot(x, w) + v[:2, :2], shapes={x: (2, 4)})
    for call in (f, lambda: g(np.ones((3, 4)))):
        with pytest.raises(ValueError, match="inner sizes differ"):
            call()
    w.set_value(np.ones((4, 2)))
    np.testing.assert_array_equal(f(), np.full((3, 2), 4.0))
    np.testing.assert_array_equal(g(np.ones((3, 4))), np.full((3, 2), 4.0))
    np.testing.assert_array_equal(k(np.ones((2, 4))), np.full((2, 2), 5.0))
    v.set_value(np.ones((2, 6)))
    np.testing.assert_array_equal(h(np.ones((6, 1))), np.full((2, 1), 6.0))
