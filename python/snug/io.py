"""Arrays in files: safetensors and npz, and checkpoints of a training.

    snug.io.save("model.safetensors", {"W": W, "b": b}, metadata={"epochs": "12"})
    arrays = snug.io.load("model.safetensors")

A file is written aside and renamed, so it is there whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from snug import _core
from snug._core.io import Checkpoints

__all__ = ["Checkpoints", "load", "load_with_metadata", "save"]


def _value(value: Any) -> Any:
    return value.get_value(borrow=True) if isinstance(value, _core.SharedVariable) else value


def save(
    path: str | os.PathLike, arrays: Mapping[str, Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes arrays or shared variables by name to a .safetensors or .npz file."""
    values = {name: _value(value) for name, value in arrays.items()}
    _core.io.save(path, values, dict(metadata or {}))


def load(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """The arrays of a .safetensors or .npz file by name."""
    return load_with_metadata(path)[0]


def load_with_metadata(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and the metadata of a file; that of .npz is empty."""
    return _core.io.load(path)
