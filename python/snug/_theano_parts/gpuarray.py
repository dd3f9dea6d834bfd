"""`theano.gpuarray`, `theano.sandbox.cuda` and the modules below them. The GPU is the device of
`snug.config`, if that is one; else they are importable, and say that there is none."""

from __future__ import annotations

import sys
from typing import Any

import snug.tensor as T
from snug import _core
from snug._config import config
from snug._devices import devices
from snug._shared import shared

__path__: list[str] = []
pygpu = None
basic_ops = blas = dnn = type = sys.modules[__name__]

_NO_GPU = "there is no GPU here: functions run on the CPU"


def _activated() -> bool:
    """Whether functions are made for a GPU."""
    return config.device != "cpu" and any(
        d.name == config.device and d.kind == "gpu" for d in devices()
    )


def dnn_present() -> bool:
    """Whether functions are made for a GPU, which has convolutions; dnn_present.msg is for those
    that are not."""
    return _activated()


def dnn_available(context_name: Any = None) -> bool:
    """As dnn_present."""
    return _activated()


dnn_present.msg = dnn_available.msg = _NO_GPU  # type: ignore[attr-defined]


def use(device: str, *args: Any, **kwargs: Any) -> None:
    """theano.config.device = device."""
    from snug._theano_config import theano_config

    theano_config.device = device


def gpu_contiguous(x: Any) -> _core.Variable:
    """x: how it lies in memory is the plan's."""
    return _core.as_tensor(x, "gpu_contiguous")


def as_gpuarray_variable(x: Any, context_name: str | None = None) -> _core.Variable:
    """x on a device, that of `theano.config.device` if none is named."""
    return T.transfer(x, context_name)


gpu_from_host = as_gpuarray_variable


def host_from_gpu(x: Any) -> _core.Variable:
    """x on the host."""
    return T.transfer(x, "cpu")


class GpuFromHost:
    """GpuFromHost(context)(x) is x on a device."""

    def __init__(self, context_name: str | None = None):
        self.context_name = context_name

    def __call__(self, x: Any) -> _core.Variable:
        return T.transfer(x, self.context_name)


class HostFromGpu:
    """HostFromGpu()(x) is x on the host."""

    def __call__(self, x: Any) -> _core.Variable:
        return T.transfer(x, "cpu")


class GpuArrayType:
    """The type of tensors: a device is no part of a type here, so this makes a TensorType, and no
    type is an instance of it."""

    def __new__(  # type: ignore[misc]
        cls, dtype: str, broadcastable: Any, context_name: str | None = None, name: Any = None
    ) -> Any:
        return T.TensorType(dtype, broadcastable, name)


def gpuarray_shared_constructor(
    value: Any,
    name: str | None = None,
    strict: bool = False,
    allow_downcast: bool | None = None,
    borrow: bool = False,
    broadcastable: Any = None,
    target: str | None = None,
) -> Any:
    """A shared variable on a device, that of `theano.config.device` if none is named."""
    where = target or config.device
    return shared(value, name, strict, allow_downcast, borrow, broadcastable, target=where)


def dnn_conv(
    img: Any,
    kerns: Any,
    border_mode: Any = "valid",
    subsample: Any = (1, 1),
    dilation: Any = (1, 1),
    conv_mode: str = "conv",
    direction_hint: Any = None,
    workmem: Any = None,
    algo: Any = None,
    precision: Any = None,
    num_groups: int = 1,
) -> _core.Variable:
    """conv2d; conv_mode "cross" does not turn the filters. What chooses an algorithm is ignored."""
    return T.nnet.conv2d(
        img,
        kerns,
        border_mode=border_mode,
        subsample=subsample,
        filter_flip=conv_mode == "conv",
        filter_dilation=dilation,
        num_groups=num_groups,
    )


def dnn_pool(
    img: Any, ws: Any, stride: Any = None, mode: str = "max", pad: Any = None
) -> _core.Variable:
    """pool_2d or pool_3d, by the number of entries of ws, with ignore_border."""
    pool = T.signal.pool.pool_2d if len(ws) == 2 else T.signal.pool.pool_3d
    return pool(img, ws, True, (1,) * len(ws) if stride is None else stride, pad, mode)


def dnn_spatialtf(
    img: Any, theta: Any, scale_width: float = 1, scale_height: float = 1
) -> _core.Variable:
    """Images at the places that affine maps theta (batch, 2, 3) give; 0 outside."""
    return T.nnet.spatial_transformer(img, theta, scale_width, scale_height)


def __getattr__(name: str) -> Any:
    if name in ("pygpu_activated", "cuda_available", "cuda_enabled"):
        return _activated()
    raise AttributeError(f"Theano's GPU modules have no {name!r} in snug: {_NO_GPU}")
