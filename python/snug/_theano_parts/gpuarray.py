"""`theano.gpuarray`, `theano.sandbox.cuda` and the modules below them: importable, and they say
that there is no GPU."""

from __future__ import annotations

import sys
from typing import Any

from snug import _core

__path__: list[str] = []
pygpu_activated = cuda_available = cuda_enabled = False
pygpu = None
basic_ops = blas = dnn = type = sys.modules[__name__]

_NO_GPU = "there is no GPU here: functions run on the CPU"


def dnn_present() -> bool:
    """False; dnn_present.msg says why."""
    return False


def dnn_available(context_name: Any = None) -> bool:
    """False; dnn_available.msg says why."""
    return False


dnn_present.msg = dnn_available.msg = _NO_GPU  # type: ignore[attr-defined]


def use(device: str, *args: Any, **kwargs: Any) -> None:
    """theano.config.device = device, which says once that functions run on the CPU."""
    from snug._theano_config import theano_config

    theano_config.device = device


def gpu_contiguous(x: Any) -> _core.Variable:
    """x: there is one memory."""
    return _core.as_tensor(x, "gpu_contiguous")


as_gpuarray_variable = gpu_from_host = host_from_gpu = gpu_contiguous


def __getattr__(name: str) -> Any:
    raise AttributeError(f"Theano's GPU modules have no {name!r} in snug: {_NO_GPU}")
