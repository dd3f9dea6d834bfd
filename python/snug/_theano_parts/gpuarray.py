"""`theano.gpuarray` and the modules below it: importable, and they say that there is no GPU."""

from __future__ import annotations

from typing import Any

import snug.tensor as T
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
    raise AttributeError(f"theano.gpuarray has no {name!r}: {_NO_GPU}")
