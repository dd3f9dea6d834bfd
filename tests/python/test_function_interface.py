"""function() as Theano has it: inputs, modes, the function object, and filtering of arguments."""

import inspect
import io

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import In, Mode, Out
from snug.compile.nanguardmode import NanGuardMode


def f32(*values):
    return np.array(values, "f")


# ---- inputs


def test_stateful_inputs():
    inc, state = T.iscalar("inc"), T.iscalar("state")
    f = snug.function([inc, In(state, value=0, update=state + inc)], state * 2)
    assert f(1) == 0 and f(5) == 2 and f[state] == 6
    assert f(1, 100) == 200 and f[state] == 101
    assert f(inc=1, state=3) == 6 and f.value[state] == 4
    f[state] = 50
    assert f(0) == 100 and f["state"] == 50 and f.container["state"].value == 50
    with pytest.raises(TypeError, match="no value"):
        In(state, update=state + 1)
    with pytest.raises(TypeError, match="update"):
        snug.function([In(state, value=0, update=state * 1.5)], state)


def test_two_stateful_functions_are_apart():
    state = T.dscalar("s")
    entry = In(state, value=1.0, update=state * 2)
    f, g = snug.function([entry], state), snug.function([entry], state)
    assert [f(), f(), f(), g()] == [1, 2, 4, 1]


def test_implicit_inputs():
    x, s = T.vector("x"), T.scalar("s")
    f = snug.function([x, In(s, value=3, implicit=True, update=s + 1)], x * s)
    np.testing.assert_array_equal(f([1, 2]), [3, 6])
    np.testing.assert_array_equal(f([1, 2]), [4, 8])
    with pytest.raises(TypeError):
        f([1, 2], 3)
    assert f[s] == 5
    f[s] = 0
    np.testing.assert_array_equal(f([1, 2]), [0, 0])
    w = snug.shared(np.float32(2))
    g = snug.function([x, In(s, value=w)], x * s)
    w.set_value(np.float32(7))
    np.testing.assert_array_equal(g([1, 2]), [7, 14])
    assert g[s] == 7 and g[w] == 7
    with pytest.raises(TypeError, match="needs a value"):
        In(s, implicit=True)


def test_tuples_as_inputs():
    x, s = T.dscalar("x"), T.dscalar("s")
    f = snug.function([x, (s, 10.0)], x + s)
    assert f(1) == 11 and f(1, 2) == 3
    g = snug.function([("first", x), ((s, s + x), 1.0)], x * s)
    assert g(first=2) == 2 and g(first=2) == 6
    for bad in ((x, s, 1.0, 2), ("x",), (1.0, x), ((), 1)):
        with pytest.raises(TypeError, match="inputs must be variables"):
            snug.function([bad], x)


def test_in_and_out():
    x = T.vector("x")
    entry = In(x, name="other", mutable=True, borrow=True, strict=True)
    assert entry.variable is x and entry.name == "other" and entry.mutable and entry.borrow
    assert In(x, autoname=False).name is None
    f = snug.function([entry], Out(x * 2, borrow=True))
    a = f32(1, 2)
    np.testing.assert_array_equal(f(other=a), [2, 4])
    np.testing.assert_array_equal(a, [1, 2])
    with pytest.raises(TypeError):
        f([1, 2])
    with pytest.raises(ValueError, match="contradict"):
        In(x, mutable=True, borrow=False)
    assert snug.Param(x, default=1.0, name="p").value == 1.0
    assert snug.compile.io.In is In and snug.compile.In is In
    names = " ".join(inspect.signature(In).parameters)
    assert names == (
        "variable name value update mutable strict allow_downcast autoname implicit borrow shared"
    )


def test_signature():
    names = " ".join(list(inspect.signature(snug.function).parameters)[:12])
    assert names == (
        "inputs outputs mode updates givens no_default_updates accept_inplace name rebuild_strict "
        "allow_input_downcast profile on_unused_input"
    )


# ---- filtering of arguments: every line of what Theano accepts

FILTER = [
    ("fmatrix", np.zeros((2, 2)), False),
    ("fmatrix", [[1, 2], [3, 4]], True),
    ("ivector", [1, 2], True),
    ("ivector", np.array([1, 2]), False),
    ("fmatrix", np.zeros((2, 2), "int8"), True),
    ("ivector", np.zeros(2, "uint8"), True),
    ("fscalar", 0.1, True),
    ("dscalar", 0.1, True),
    ("fscalar", np.float64(0.1), False),
    ("fscalar", np.float32(0.1), True),
    ("fscalar", 1, True),
    ("iscalar", 1.5, False),
    ("iscalar", 2**40, False),
    ("fvector", 1.0, False),
    ("fmatrix", np.zeros(3, "f"), False),
    ("fvector", [f32(1)[0], f32(2)[0]], True),
    ("fmatrix", [f32(1, 2), f32(3, 4)], True),
    ("fvector", [0.1], False),
    ("frow", np.zeros((1, 3), "f"), True),
    ("frow", np.zeros((2, 3), "f"), False),
    ("fcol", np.zeros((3, 1), "f"), True),
    ("fcol", np.zeros((3, 2), "f"), False),
    ("lscalar", np.int32(3), True),
    ("bscalar", 3, True),
    ("bscalar", 300, False),
    ("fvector", None, False),
]


@pytest.mark.parametrize(("make", "value", "taken"), FILTER)
def test_filtering(make, value, taken):
    x = getattr(T, make)("x")
    f = snug.function([x], x)
    if taken:
        result = f(value)
        assert result.dtype == x.dtype and isinstance(result, np.ndarray)
    else:
        with pytest.raises(TypeError):
            f(value)
    if not taken and isinstance(value, (np.ndarray, np.generic, float, list)):
        loose = snug.function([x], x, allow_input_downcast=True)
        if np.ndim(value) == x.ndim and not any(x.broadcastable):
            assert loose(value).dtype == x.dtype


def test_python_floats_and_float64():
    x = T.fscalar("x")
    with snug.config.change_flags(floatX="float64"):
        f = snug.function([x], x)
        with pytest.raises(TypeError):
            f(0.1)
        assert f(0.5) == 0.5
    g = snug.function([x], x, allow_input_downcast=False)
    with pytest.raises(TypeError):
        g(0.1)


# ---- what a function is made of


def test_updates_and_givens_take_numbers():
    s = snug.shared(np.zeros(2, "f"), "s")
    f = snug.function([], s * 1, updates=[(s, [3, 4])])
    f()
    np.testing.assert_array_equal(s.get_value(), [3, 4])
    x = T.dscalar("x")
    assert snug.function([], x * 2, givens={x: 1.5})() == 3
    n = snug.shared(np.int64(0))
    snug.function([], updates={n: 5})()
    assert n.get_value() == 5


def test_rebuild_strict():
    x, d = T.fvector("x"), T.dvector("d")
    y = x * 2
    with pytest.raises(TypeError, match="givens"):
        snug.function([d], y, givens={x: d})
    f = snug.function([d], y, givens={x: d}, rebuild_strict=False)
    assert f(np.array([0.1])).dtype == "float64"


def test_no_default_updates():
    a, b = snug.shared(0, "a"), snug.shared(0, "b")
    a.default_update, b.default_update = a + 1, b + 1
    snug.function([], a + b)()
    assert (a.get_value(), b.get_value()) == (1, 1)
    snug.function([], a + b, no_default_updates=True)()
    snug.function([], a + b, no_default_updates=[a])()
    assert (a.get_value(), b.get_value()) == (1, 2)
    snug.function([], [], no_default_updates=[a], updates=[(a, a + 10)])()
    assert a.get_value() == 11


def test_shapes_by_name():
    x = T.matrix("x")
    f = snug.function([x], x.sum(), shapes={"x": (3, 4)})
    assert f(np.ones((3, 4), "f")) == 12
    with pytest.raises(ValueError, match="no input"):
        snug.function([x], x.sum(), shapes={"y": (3, 4)})


def test_profile_and_accept_inplace():
    x = T.vector("x")
    f = snug.function([x], x * 2, profile=True, accept_inplace=True)
    f([1])
    assert f.profile.fct_callcount == 1 and snug.function([x], x).profile is None
    assert f.copy().profile.fct_callcount == 0 and f.copy(profile=False).profile is None


def test_profile_names_steps_results_and_lines():
    x = T.fmatrix("x")
    f = snug.function([x], T.dot(x, x).sum(), profile=True, name="square")
    for _ in range(3):
        f(np.ones((4, 4), np.float32))
    profile = f.profile
    step = next(s for s in profile.steps if s.result == "float32 (4, 4)")
    assert step.count == 3 and step.seconds > 0 and "test_function_interface.py" in step.where
    assert profile.fct_call_time == pytest.approx(sum(s.seconds for s in profile.steps))
    file = io.StringIO()
    profile.summary(file)
    assert file.getvalue().startswith("profile of square: 3 calls, ")
    assert f"1 x  {step.name}" in str(profile)


# ---- modes


@pytest.mark.parametrize(
    "mode",
    [
        "FAST_RUN",
        "FAST_COMPILE",
        "DebugMode",
        "DEBUG_MODE",
        "NanGuardMode",
        "fast",
        Mode(linker="vm", optimizer="fast_compile"),
        Mode("py", None),
        Mode("cvm").including("gpuarray").excluding("fusion", "stabilize").requiring("inplace"),
        snug.compile.get_default_mode(),
        snug.compile.mode.FAST_RUN.clone(),
        snug.compile.DebugMode(),
        NanGuardMode(nan_is_error=True, inf_is_error=False, big_is_error=False),
        None,
    ],
)
def test_modes(mode):
    x = T.vector("x")
    f = snug.function([x], T.log(T.exp(x)), mode=mode)
    np.testing.assert_allclose(f([1, 2]), [1, 2], rtol=1e-6)
    assert isinstance(f.maker.mode, Mode)


def test_names_of_modes():
    assert snug.compile.get_mode("FAST_RUN") is snug.compile.predefined_modes["FAST_RUN"]
    assert snug.compile.get_mode(None).kind == "fast"
    assert Mode("py", None).disabled_passes == ["fold_constants", "simplify", "stabilize"]
    assert Mode().excluding("stabilize").including("stabilize") == Mode()
    assert Mode().clone(optimizer=None).provided_optimizer is None
    with snug.config.change_flags(mode="DebugMode"):
        assert snug.compile.get_default_mode().kind == "check"
    with pytest.raises(ValueError, match="did you mean 'FAST_RUN'"):
        snug.function([], T.constant(1), mode="FAST_RUNN")
    with pytest.raises(ValueError, match="linker"):
        Mode(linker="javac")
    for refused in (lambda: snug.compile.MonitorMode(pre_func=print), lambda: "MonitorMode"):
        with pytest.raises(NotImplementedError, match="MonitorMode"):
            snug.function([], T.constant(1), mode=refused())
    with pytest.raises(TypeError):
        snug.function([], T.constant(1), mode=3)


def test_nan_guard():
    x = T.vector("x")
    y = T.log(x)
    line = inspect.currentframe().f_lineno - 1
    f = snug.function([x], y * 2, mode=NanGuardMode())
    np.testing.assert_array_equal(f([1]), [0])
    with pytest.raises(AssertionError) as e:
        f([-1])
    assert "nan" in str(e.value) and "log" in str(e.value)
    assert f"test_function_interface.py:{line}" in str(e.value)
    with pytest.raises(AssertionError, match="inf at \\(1,\\)"):
        f([1, 0])
    with pytest.raises(AssertionError, match="argument x holds nan at \\(0,\\)"):
        f([np.nan])
    with pytest.raises(AssertionError, match="holds 1099511627776"):
        snug.function([x], x * 2.0**20, mode="NanGuardMode")([2**20])
    loose = snug.function([x], y, mode=NanGuardMode(inf_is_error=False))
    assert loose([0]) == -np.inf


def test_nan_guard_and_updates():
    w = snug.shared(f32(1), "w")
    f = snug.function([], updates=[(w, w - 2)], mode=NanGuardMode())
    f()
    g = snug.function([], T.log(w), updates=[(w, w * 5)], mode=NanGuardMode())
    with pytest.raises(AssertionError):
        g()
    bad = snug.function([], updates=[(w, T.sqrt(w))], mode=NanGuardMode())
    with pytest.raises(AssertionError):
        bad()


# ---- the function object


def test_copies():
    x = T.vector("x")
    a, b = snug.shared(f32(0, 0), "a"), snug.shared(f32(10, 10), "b")
    f = snug.function([In(x, value=f32(1, 1))], x + a, updates=[(a, a + x)], name="f")
    g = f.copy(swap={a: b}, name="g", share_memory=True)
    assert g.name == "g" and f.name == "f"
    np.testing.assert_array_equal(g(), [11, 11])
    np.testing.assert_array_equal(b.get_value(), [11, 11])
    np.testing.assert_array_equal(a.get_value(), [0, 0])
    h = f.copy(delete_updates=True)
    np.testing.assert_array_equal(h([1, 2]), [1, 2])
    np.testing.assert_array_equal(a.get_value(), [0, 0])
    same = f.copy()  # has the same shared variables
    same()
    np.testing.assert_array_equal(a.get_value(), [1, 1])
    assert f.copy(swap={"a": b}).get_shared() == [b]
    with pytest.raises(ValueError, match="no shared variable"):
        f.copy(swap={b: a})
    with pytest.raises(TypeError, match="same type"):
        f.copy(swap={a: snug.shared(1.0)})


def test_copies_of_default_updates():
    a, b = snug.shared(0, "a"), snug.shared(100, "b")
    a.default_update = a + 1
    f = snug.function([], a * 1)
    g = f.copy(swap={a: b})
    g()
    assert (a.get_value(), b.get_value()) == (0, 101)
    f.copy(delete_updates=True)()
    assert a.get_value() == 0


def test_maker_and_graph():
    x = T.matrix("x")
    w = snug.shared(np.ones((2, 2), "f"), "w")
    f = snug.function([x], [T.dot(x, w) + 1, x * 1], updates=[(w, w * 2)], name="f")
    maker = f.maker
    assert [i.variable for i in maker.inputs] == [x]
    assert [i.variable for i in maker.expanded_inputs] == [x, w]
    assert len(maker.outputs) == 2 and not maker.unpack_single
    graph = maker.fgraph
    assert f.maker.fgraph is graph
    assert [v.name for v in graph.inputs] == ["x", "w"] and len(graph.outputs) == 3
    ops = [node.op.name for node in graph.toposort()]
    assert "dot" in ops and "mul" in ops and graph.apply_nodes == set(graph.toposort())
    assert set(graph.outputs) <= graph.variables and graph.update_mapping == {2: 1}
    assert "dot" in snug.debugprint(graph.outputs, file="str")
    assert f.get_shared() == [w]


def test_values_and_containers():
    x, y = T.scalars("xy")
    w = snug.shared(3.0, "w")
    f = snug.function([x, In(y, value=2)], x * y + w)
    assert f[y] == 2 and f["y"] == 2 and f[1] == 2 and f[x] is None and f[w] == 3
    f["y"] = 5
    assert f(1) == 8 and f.finder["y"].value == 5
    f.value["w"] = 0.0
    assert f(1) == 5 and y in f.value and "z" not in f and w in f
    with pytest.raises(TypeError, match="did you mean"):
        f["yy"]
    with pytest.raises(ValueError):
        f[T.scalar()]
    assert len(f.input_storage) == 3 and f.output_storage == []
    assert f.fn is f and f.vm is f
    f.trust_input = True
    assert f(1) == 5
    f.free()


def test_calls():
    x, y = T.vectors("xy")
    f = snug.function([x, y], {"a": x, "b": x + y})
    assert set(f(x=[1], y=[2])) == {"a", "b"}
    with pytest.raises(TypeError, match="missing"):
        f([1])
    with pytest.raises(TypeError, match="no input named"):
        f([1], z=[1])
    with pytest.raises(TypeError, match="twice"):
        f([1], [2], x=[3])
    assert set(f([1], [2], output_subset=["a"])) == {"a"}
    g = snug.function([x], [x, x * 2, x * 3])
    (third, first) = g([1], output_subset=[2, 0])
    assert (third, first) == (3, 1)


def test_modules():
    import importlib

    for name in ("mode", "io", "function", "sharedvalue", "nanguardmode", "debugmode"):
        importlib.import_module(f"snug.compile.{name}")
    assert snug.compile.sharedvalue.SharedVariable is snug.SharedVariable
    assert snug.compile.function is snug.function


def test_free_gives_memory_back():
    x = T.matrix("x")
    f = snug.function([x], T.exp(T.dot(x, x)).sum() + T.dot(x, x).max())
    value = np.ones((300, 300), "float32")
    before = f(value)
    assert f.counter("arena_bytes") >= value.nbytes
    plans = f.counter("plans")
    f.free()
    assert f.counter("arena_bytes") == 0
    np.testing.assert_array_equal(f(value), before)
    assert f.counter("plans") == plans + 1 and f.counter("programs") == 1


def test_maker_knows_the_inputs_as_they_were_given():
    x, y, z = T.vectors("xyz")
    f = snug.function(
        [
            snug.In(x, strict=True, borrow=True),
            snug.In(y, name="other", value=[1.0], allow_downcast=True, mutable=True),
            snug.In(z, value=[2.0], update=z + x),
        ],
        x + y + z,
    )
    first, second, third = f.maker.inputs
    assert (first.strict, first.borrow, first.mutable) == (True, True, False)
    assert (second.name, second.allow_downcast, second.mutable) == ("other", True, True)
    assert third.variable is z and third.update is not None and third.mutable


def test_shared_list_is_generic():
    s = snug.shared([1, 2], name="s")
    assert isinstance(s.type, T.Generic) and s.name == "s"
    assert s.get_value() == [1, 2] and s.get_value() is not s.get_value()
    s.set_value([3])
    assert s.container.value == [3] and s.get_value(borrow=True) is s.container.storage[0]
    with pytest.raises(TypeError):
        T.exp(s)
