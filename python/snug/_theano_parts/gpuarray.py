"""`theano.gpuarray` and the modules below it: importable, and they say that there is no GPU."""

from __future__ import annotations

from typing import Any

from snug import _core

pygpu_activated = False
pygpu = None

_NO_GPU = "there is no GPU here: functions run on the CPU"


def dnn_present() -> bool:
    """False; dnn_present.msg says why."""
    return False


def dnn_available(context_name: Any = None) -> bool:
    """False; dnn_available.msg says why."""
    return False


dnn_present.msg = dnn_available.msg = _NO_GPU  # type: ignore[attr-defined]


def gpu_contiguous(x: Any) -> _core.Variable:
    """x: there is one memory."""
    return _core.as_tensor(x, "gpu_contiguous")


host_from_gpu = gpu_contiguous


def __getattr__(name: str) -> Any:
    raise AttributeError(f"theano.gpuarray has no {name!r}: {_NO_GPU}")
