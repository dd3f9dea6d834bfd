"""One expression for every row of the op table: what docs/reference.md says of dtypes and constants
is measured on it, and the tests of huge and empty shapes run it.

An example gets a maker of inputs: `x(2)` is a new matrix of the dtype in question, `x(1, "int64")`
one of a fixed dtype. Elementwise rows and reductions need no entry."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import snug
import snug.tensor as T
from snug import _core

ROWS = _core.op_rows()
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


class Maker:
    """Makes inputs of one dtype, and remembers them."""

    def __init__(self, dtype: str) -> None:
        self.dtype, self.inputs = dtype, []

    def __call__(self, ndim: int, dtype: str | None = None) -> Any:
        variable = T.TensorType(dtype or self.dtype, (False,) * ndim)(f"x{len(self.inputs)}")
        self.inputs.append(variable)
        return variable


def _standardize(x: Maker) -> Any:
    v = x(2)
    return T.nnet.bn.batch_normalization_train(v, T.ones_like(v[0]), T.zeros_like(v[0]))[0]


def _loop(x: Maker) -> Any:
    states, _ = snug.loop(lambda i, e, h: ([T.maximum(h[0], e[0])], []), [x(2)], [x(1)])
    return states[0]


def _conv_gradient(axes: int, which: int) -> Callable[[Maker], Any]:
    def build(x: Maker) -> Any:
        images, filters = x(axes + 2), x(axes + 2)
        y = getattr(T.nnet, f"conv{axes}d")(images, filters)
        return T.grad(y.sum(), [images, filters])[which]

    return build


def _pool_gradient(mode: str) -> Callable[[Maker], Any]:
    def build(x: Maker) -> Any:
        images = x(4)
        return T.grad(_core.pool(images, (2, 2), mode=mode).sum(), images)

    return build


def _max_pool_take(x: Maker) -> Any:
    images = x(4)
    first = T.grad(T.sqr(_core.pool(images, (2, 2))).sum(), images)
    return T.grad(first.sum(), images, disconnected_inputs="ignore")


def _quiet(op: Any, value: Any) -> None:
    """Prints nothing."""


EXAMPLES: dict[str, Callable[[Maker], Any]] = {
    "arange": lambda x: _core.arange(0, x(1).shape[0], 1, x.dtype),
    "argsort": lambda x: T.argsort(x(2)),
    "argtopk": lambda x: T.argtopk(x(2), 1),
    "assert": lambda x: T.opt.Assert()(x(2), T.ge(x(1).size, 0)),
    "average_pool": lambda x: _core.pool(x(4), (2, 2), mode="average_inc_pad"),
    "average_pool_grad": _pool_gradient("average_inc_pad"),
    "batched_dot": lambda x: T.batched_dot(x(3), x(3)),
    "broadcast_to": lambda x: T.broadcast_to(x(1), (3, *x.inputs[0].shape)),
    "cast": lambda x: _core.cast(x(1), "float64" if x.dtype != "float64" else "float32"),
    "check_index": lambda x: x(1)[x(1, "int64")],
    "cholesky": lambda x: T.slinalg.cholesky(x(2)),
    "concatenate": lambda x: T.concatenate([x(2), x(2)], axis=1),
    "constant": lambda x: T.tensor_copy(T.constant(np.zeros(3, "int8")).astype(x.dtype)),
    "conv2d": lambda x: T.nnet.conv2d(x(4), x(4)),
    "conv2d_grad_input": _conv_gradient(2, 0),
    "conv2d_grad_weight": _conv_gradient(2, 1),
    "conv3d": lambda x: T.nnet.conv3d(x(5), x(5)),
    "conv3d_grad_input": _conv_gradient(3, 0),
    "conv3d_grad_weight": _conv_gradient(3, 1),
    "cumprod": lambda x: T.cumprod(x(2), 0),
    "cumsum": lambda x: T.cumsum(x(2), 0),
    "det": lambda x: T.nlinalg.det(x(2)),
    "dimshuffle": lambda x: x(2).dimshuffle(1, "x", 0),
    "dot": lambda x: T.dot(x(2), x(2)),
    "eig": lambda x: T.real(T.nlinalg.complex_eig(x(2))[0]),
    "eigh": lambda x: T.nlinalg.eigh(x(2))[1],
    "eigvalsh": lambda x: T.slinalg.eigvalsh(x(2)),
    "expm": lambda x: T.slinalg.expm(x(2)),
    "eye": lambda x: T.eye(x(2).shape[0], x.inputs[0].shape[1], dtype=x.dtype),
    "fft": lambda x: T.fft.fft(x(2)),
    "gather": lambda x: x(2)[x(1, "int64")],
    "grad_clip": lambda x: snug.gradient.grad_clip(x(2), -1, 1),
    "grad_scale": lambda x: snug.gradient.grad_scale(x(2), 2),
    "on_device": lambda x: x(2).transfer("cpu"),
    "imag": lambda x: T.imag(T.complex(x(2), x(2))),
    "input": lambda x: x(1),
    "inverse": lambda x: T.nlinalg.matrix_inverse(x(2)),
    "irfft": lambda x: T.fft.real_ifft(T.complex(x(2), x(2))),
    "linear_recurrence": lambda x: _core.linear_recurrence(x(2), x(2), 0),
    "log_softmax": lambda x: _core.log_softmax(x(2)),
    "loop": _loop,
    "lstsq": lambda x: T.nlinalg.lstsq(x(2), x(2))[0],
    "make_vector": lambda x: T.zeros((x(2).shape[0], 3), x.dtype),
    "max_pool": lambda x: _core.pool(x(4), (2, 2)),
    "max_pool_take": _max_pool_take,
    "max_unpool": _pool_gradient("max"),
    "nonzero": lambda x: T.nonzero(x(2))[0],
    "pair": lambda x: T.complex(x(2), x(2)),
    "print": lambda x: snug.printing.Print("x", global_fn=_quiet)(x(2)),
    "qr": lambda x: T.nlinalg.qr(x(2))[0],
    "qr_r": lambda x: T.nlinalg.qr(x(2), "r"),
    "random_normal": lambda x: _core.RandomStream(1).normal(x(1).shape, dtype=x.dtype),
    "random_uniform": lambda x: _core.RandomStream(1).uniform(x(1).shape, dtype=x.dtype),
    "real": lambda x: T.real(T.complex(x(2), x(2))),
    "rebroadcast": lambda x: T.unbroadcast(x(1).dimshuffle("x", 0), 0),
    "reshape": lambda x: x(2).flatten(),
    "rfft": lambda x: T.fft.real_fft(x(2)),
    "scatter_add": lambda x: T.inc_subtensor(x(2)[x(1, "int64")], x(2)),
    "scatter_set": lambda x: T.set_subtensor(x(2)[x(1, "int64")], x(2)),
    "searchsorted": lambda x: T.searchsorted(x(1), x(1)),
    "shape": lambda x: x(2).shape,
    "shared": lambda x: T.tensor_copy(snug.shared(np.zeros(3, "int8")).astype(x.dtype)),
    "slice": lambda x: x(2)[1:, ::-1],
    "slice_inc": lambda x: T.inc_subtensor(x(2)[1:], x(1)),
    "slice_set": lambda x: T.set_subtensor(x(2)[1:], x(1)),
    "slogdet": lambda x: T.nlinalg.slogdet(x(2))[1],
    "softmax": lambda x: _core.softmax(x(2)),
    "solve": lambda x: T.slinalg.solve(x(2), x(2)),
    "sort": lambda x: T.sort(x(2)),
    "standardize": _standardize,
    "svd": lambda x: T.nlinalg.svd(x(2))[1],
    "svdvals": lambda x: T.nlinalg.svd(x(2), compute_uv=False),
    "switch": lambda x: T.switch(x(2, "bool"), x(2), x(2)),
    "view_as_complex": lambda x: T.complex(x(2), x(2)),
    "view_as_real": lambda x: T.real(x(2, "complex128")),
}


def example_of(row: str) -> Callable[[Maker], Any]:
    """The example of a row; a KeyError if there is none."""
    if row in EXAMPLES:
        return EXAMPLES[row]
    info = ROWS[row]
    if not {"elementwise", "reduction"} & set(info["traits"]) or not hasattr(_core, row):
        raise KeyError(row)
    return lambda x: getattr(_core, row)(*(x(2) for _ in range(info["inputs"])))


def applications(outputs: Any) -> dict[str, _core.Op]:
    """The ops of an expression by the names of their rows."""
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    nodes = (v.owner for v in _core.ancestors(outputs))
    return {node.op.name: node.op for node in nodes if node is not None}


def takes(row: str, dtype: str) -> bool:
    """Whether the example of a row can be built of a dtype."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # gradients of integers are zeros
            found = applications(example_of(row)(Maker(dtype)))
    except (TypeError, NotImplementedError):
        return False
    return row in found or row in ("input", "constant", "shared")


def constants_of(row: str) -> list[str]:
    """The names of the constants that the row's example has."""
    for dtype in ("float64", "int64"):
        if takes(row, dtype):
            op = applications(example_of(row)(Maker(dtype))).get(row)
            return sorted(op.attrs) if op is not None else []
    return []
