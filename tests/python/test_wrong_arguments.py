"""Arguments of a wrong kind: every public function shows an error of ours, never one of Python or
of the extension from somewhere inside."""

import inspect
import pickle
import types

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import _core

MODULES = [
    T,
    T.nnet,
    T.extra_ops,
    T.fft,
    T.nlinalg,
    T.slinalg,
    T.sort,
    snug.gradient,
]
WRONG = ["abc", 1.5, [1], [], None, {}, (1, "a")]


def public_functions():
    found = {}
    for module in MODULES:
        names = getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]
        for name in names:
            value = getattr(module, name)
            if isinstance(value, types.FunctionType):
                found.setdefault(id(value), pytest.param(value, id=f"{module.__name__}.{name}"))
    return list(found.values())


def calls(function):
    """Arguments of which one is of a wrong kind, in each position."""
    x = T.matrix("x")
    parameters = list(inspect.signature(function).parameters.values())
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    sizes = len(positional) + 2 * any(p.kind is p.VAR_POSITIONAL for p in parameters)
    for place in range(sizes):
        for wrong in WRONG:
            arguments = [x if p.default is p.empty else p.default for p in positional]
            arguments += [x] * (sizes - len(positional))
            needed = sum(p.default is p.empty for p in positional)
            arguments[place] = wrong
            yield arguments[: max(place + 1, needed)]


@pytest.mark.parametrize("function", public_functions())
@pytest.mark.filterwarnings("ignore")
def test_wrong_kinds(function):
    for arguments in calls(function):
        try:
            function(*arguments)
        except Exception as e:
            ours = str(e).startswith(_core.error_titles) or type(e).__module__ != "builtins"
            assert ours and type(e).__name__ != "InternalError", f"{arguments}: {e!r}"
            assert not isinstance(e, (AttributeError, UnboundLocalError)), f"{arguments}: {e!r}"


def test_texts():
    x = T.matrix("x")
    with pytest.raises(TypeError, match=r"flatten: ndim: expected an integer, got 'a' \(str\)"):
        T.flatten(x, "a")
    with pytest.raises(TypeError, match=r"diag: k: expected an integer, got 1.5 \(float\)"):
        T.diag(x, k=1.5)
    with pytest.raises(
        TypeError, match=r"(?s)sum: missing a required argument: 'input'.*sum.input"
    ):
        T.sum()
    with pytest.raises(TypeError, match="shape_padleft: n_ones must be an integer, got 'a'"):
        T.shape_padleft(x, "a")
    with pytest.raises(ValueError, match=r"pad: pad_width is \[\]"):
        T.pad(x, [])
    with pytest.raises(TypeError, match="batched_tensordot: axes must be a number or two lists"):
        T.batched_tensordot(x, x, [1])


def test_numbers_and_flags_of_numpy_are_taken():
    x = T.matrix("x")
    assert T.tensordot(x, x, [[np.int64(1)], [np.int64(0)]]).ndim == 2
    assert T.tensordot(x, x, np.int64(1)).ndim == 2
    assert T.sum(x, axis=np.int64(0), keepdims=np.True_).broadcastable == (True, False)
    assert T.sum(x, axis=0, keepdims=1).broadcastable == (True, False)


def test_errors_of_the_user_are_left_alone():
    def step(x):
        return {}["missing"]

    with pytest.raises(KeyError, match=r"^'missing'$"):
        snug.map(step, T.vector("x"))


@pytest.mark.parametrize(
    "module, name, near",
    [
        (T, "softmaxx", "snug.tensor.nnet.softmax"),
        (T, "softmax", "snug.tensor.nnet.softmax"),
        (T, "concatenat", "snug.tensor.concatenate"),
        (T.nnet, "reul", "snug.tensor.nnet.relu"),
        (T.nnet, "dot", "snug.tensor.dot"),
        (snug, "functoin", "snug.function"),
        (snug, "matrix", "snug.tensor.matrix"),
    ],
)
def test_nearest_name(module, name, near):
    assert not hasattr(module, name)
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as caught:
        getattr(module, name)
    assert f"did you mean {near}?" in str(caught.value)


@pytest.mark.parametrize("function", [T.sum, T.tanh, T.add, T.nnet.relu, snug.function])
def test_functions_pickle_by_name(function):
    assert pickle.loads(pickle.dumps(function)) is function
