"""Print and Assert: identities that do something while a function runs."""

import threading

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import agree, agree_gradient, rows, sample, variable
from snug import _core
from snug.printing import Print
from snug.tensor.opt import Assert, assert_, assert_op


@rows("print", "assert")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "float64"])
def test_identities(row, dtype):
    x = variable(dtype, 2)
    condition = T.ge(x.shape[0], 0)
    y = _core.print_value(x, "", None) if row == "print" else assert_(x, condition, True)
    assert y.type == x.type
    for shape in ((0, 3), (1, 1), (7, 33), (300, 300)):
        a = sample(dtype, shape)
        agree(row, [x], [y], [([a], [a])])
    if dtype == "float64":
        agree_gradient(row, y * y, [x], [sample(dtype, (2, 3), special=False)])


# ---- Print


@pytest.mark.parametrize("mode", ["fast", "check", "reference"])
def test_empty_integers_are_printed(mode):
    x, seen = T.bvector("x"), []
    y = Print("x", global_fn=lambda op, value: seen.append(value.shape))(x[0:0:2])
    assert snug.function([x], y & y, mode=mode)(np.array([3], "int8")).shape == (0,)
    assert seen == [(0,)]


def test_prints_as_theano_does(capsys):
    x = T.dvector("x")
    f = snug.function([x], Print("msg", attrs=("__str__", "shape"))(x) * 2)
    assert f([1.0, 2.0]).tolist() == [2.0, 4.0]
    assert capsys.readouterr().out == "msg __str__ = [1. 2.]\nmsg shape = (2,)\n"
    snug.function([x], Print()(x))([3.0])
    assert capsys.readouterr().out == " __str__ = [3.]\n"


@pytest.mark.parametrize("mode", ["fast", "reference", "check"])
def test_prints_once_per_call(mode):
    seen = []
    x = T.dvector("x")
    y = Print("y", global_fn=lambda op, v: seen.append((op.message, v.copy())))(x * 2)
    f = snug.function([x], [y + 1, y.sum(), T.exp(y)], mode=mode)
    for k in range(3):
        f(np.full(4, float(k)))
        assert len(seen) == k + 1
        assert seen[-1][0] == "y" and seen[-1][1].tolist() == [2.0 * k] * 4


def watched(x, seen):
    return Print(global_fn=lambda op, v: seen.append(v.tolist()))(x)


def test_constants_are_not_folded_away():
    seen = []
    f = snug.function([], watched(T.constant(2.0), seen) * 3)
    f()
    f()
    assert seen == [2.0, 2.0]


def test_sizes_are_printed():
    seen = []
    x = T.dvector("x")
    n = watched(x.shape[0], seen)
    f = snug.function([x], x[: n - 1])
    assert f([1.0, 2.0, 3.0]).tolist() == [1.0, 2.0]
    assert 3 in seen


def test_strided_values():
    seen = []
    x = T.dmatrix("x")
    f = snug.function([x], watched(x.T[::-1], seen).sum())
    f([[1.0, 2.0], [3.0, 4.0]])
    assert seen == [[[2.0, 4.0], [1.0, 3.0]]]


def test_in_loops_once_per_iteration():
    seen = []
    x = T.dvector("x")
    y, _ = snug.map(lambda v: watched(v * 2, seen) + 1, x)
    f = snug.function([x], y)
    assert f([1.0, 2.0, 3.0]).tolist() == [3.0, 5.0, 7.0]
    assert seen == [2.0, 4.0, 6.0]


def test_gradients_pass():
    seen = []
    x = T.dscalar("x")
    g = T.grad(watched(x, seen) ** 2, x)
    assert snug.function([x], g)(3.0) == 6.0


def test_the_value_cannot_be_changed_from_outside():
    def spoil(op, v):
        v[...] = 100.0

    x = T.dvector("x")
    f = snug.function([x], Print(global_fn=spoil)(x) + 1)
    assert f([1.0]).tolist() == [2.0]


def test_what_the_callback_raises_ends_the_call():
    def stop(op, v):
        raise KeyError("enough")

    w = snug.shared(1.0, "w")
    x = T.dscalar("x")
    f = snug.function([x], [], updates=[(w, Print(global_fn=stop)(w + x))])
    with pytest.raises(KeyError, match="enough"):
        f(1.0)
    assert w.get_value() == 1.0


def test_updates_are_printed_before_they_happen():
    w = snug.shared(np.zeros(3), "w")
    order = []
    new = Print(global_fn=lambda op, v: order.append(v.tolist()))(w + 1)
    f = snug.function([], [], updates=[(w, new)])
    f()
    f()
    assert order == [[1.0] * 3, [2.0] * 3] and w.get_value().tolist() == [2.0] * 3


def test_from_several_threads():
    seen = []
    x = T.dvector("x")
    f = snug.function([x], watched(x, seen).sum())
    threads = [threading.Thread(target=f, args=(np.full(5, float(k)),)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(v[0] for v in seen) == [0.0, 1.0, 2.0, 3.0]


def test_functions_may_be_called_inside():
    x = T.dscalar("x")
    inner = snug.function([x], x * 10)
    seen = []
    f = snug.function([x], Print(global_fn=lambda op, v: seen.append(float(inner(v))))(x))
    f(2.0)
    assert seen == [20.0]


# ---- Assert


def test_conditions():
    x = T.dvector("x")
    f = snug.function([x], Assert("not too many")(x, x.size < 3, x.sum() > 0) * 2)
    assert f([1.0]).tolist() == [2.0]
    with pytest.raises(AssertionError, match="not too many"):
        f([1.0, 2.0, 3.0])
    with pytest.raises(AssertionError, match="not too many"):
        f([-1.0])
    assert assert_ is assert_op


def test_the_line_of_the_assertion_is_named():
    x = T.dscalar("x")
    y = assert_op(x, x > 0)
    line = y.origin[0][1]
    with pytest.raises(AssertionError, match=f"test_printing_ops.py:{line}"):
        snug.function([x], y)(-1.0)


def test_nothing_changes_when_an_assertion_fails():
    w, v = snug.shared(np.ones(3), "w"), snug.shared(0.0, "v")
    x = T.dscalar("x")
    f = snug.function([x], [], updates=[(v, v + 1), (w, assert_op(w * x, T.lt(x, 10)))])
    f(2.0)
    with pytest.raises(AssertionError):
        f(20.0)
    assert w.get_value().tolist() == [2.0] * 3 and v.get_value() == 1.0


def test_false_constants():
    x = T.dscalar("x")
    with pytest.raises(AssertionError):
        snug.function([x], assert_op(x, False))(1.0)
    assert snug.function([x], assert_op(x, True))(1.0) == 1.0
    assert snug.function([x], assert_op(x))(1.0) == 1.0


def test_conditions_have_no_dimensions():
    x = T.dvector("x")
    with pytest.raises(TypeError, match="0-d"):
        assert_op(x, x > 0)


def test_in_loops():
    x = T.dvector("x")
    y, _ = snug.map(lambda v: assert_op(v, v < 3) * 2, x)
    f = snug.function([x], y)
    assert f([1.0, 2.0]).tolist() == [2.0, 4.0]
    with pytest.raises(AssertionError):
        f([1.0, 3.0])


def test_gradients_of_assertions():
    x = T.dscalar("x")
    f = snug.function([x], T.grad(assert_op(x, x > 0) ** 2, x))
    assert f(3.0) == 6.0
    with pytest.raises(AssertionError):
        f(-3.0)


@pytest.mark.parametrize("mode", ["fast", "reference"])
def test_callbacks_inside_a_call(mode):
    """They read its variables, as they were before it; what would wait for the call is an error."""
    w = snug.shared(np.float64(3), name="w")
    x, said = T.dscalar("x"), []
    reads = snug.function([], w * 2)
    writes = snug.function([], w, updates=[(w, w + 1)])

    def refused(call, *arguments):
        with pytest.raises(ValueError) as raised:
            call(*arguments)
        said.append(str(raised.value).splitlines()[0])

    def inside(op, value):
        assert w.get_value() == 3 and w.get_value(borrow=True) == 3 and reads() == 6
        refused(w.set_value, np.float64(1))
        refused(writes)
        refused(outer, 1.0)

    y = Print(global_fn=inside)(x * w)
    outer = snug.function([x], y, updates=[(w, w + y)], mode=mode, name="outer")
    assert outer(2.0) == 6 and w.get_value() == 9
    assert said == [
        "value error: set_value: a call on this thread that uses w is not finished",
        "value error: the function updates w, and a call on this thread that updates it is not "
        "finished",
        "value error: outer is called while a call of it on this thread is not finished",
    ]
    writes()
    assert w.get_value() == 10


def test_a_function_with_contexts_calls_itself():
    x, depth = T.dscalar("x"), []

    def again(op, value):
        depth.append(float(value))
        if len(depth) < 2:
            assert f(float(value) + 1) == 2

    f = snug.function([x], Print(global_fn=again)(x), contexts=2)
    assert f(1.0) == 1 and depth == [1, 2]
