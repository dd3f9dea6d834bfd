"""Theano's module of this name: tensors from files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from snug import _core
from snug._errors import error
from snug._op_class import OpClass
from snug.tensor._basic import constant, patternbroadcast

__all__ = ["LoadFromDisk", "load", "mpi_enabled"]

mpi_enabled = False


class LoadFromDisk(OpClass):
    """The array of a .npy file, of a dtype and broadcast pattern that the file must have."""

    __props__ = ("dtype", "broadcastable", "mmap_mode")

    def __init__(self, dtype: Any, broadcastable: Any, mmap_mode: str | None = None) -> None:
        if mmap_mode not in (None, "c"):
            raise error(
                ValueError,
                f"load: mmap_mode is {mmap_mode!r}",
                "choose None or 'c' (copy on write): expressions never change their files",
            )
        self.dtype = _core.dtype_name(dtype)
        self.broadcastable, self.mmap_mode = tuple(broadcastable), mmap_mode

    def build(self, path: Any) -> _core.Variable:
        if not isinstance(path, (str, os.PathLike)):
            raise error(
                TypeError,
                f"load: the path must be a text, got {type(path).__name__}",
                "files are read when the expression is built; pass what changes as an argument",
            )
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe would be waited for
            raise error(ValueError, f"load: {os.fspath(path)} is no regular file")
        data = np.load(path, mmap_mode=self.mmap_mode, allow_pickle=False)
        if data.dtype == bool and np.any(data.view("uint8") > 1):
            raise error(
                ValueError,
                f"load: {os.fspath(path)} is of bool, but has other bytes than 0 and 1",
                "the file is damaged, or should be of uint8",
            )
        if data.dtype != self.dtype or data.ndim != len(self.broadcastable):
            raise error(
                TypeError,
                f"load: {os.fspath(path)} holds {data.dtype} with {data.ndim} dimensions, not "
                f"{self.dtype} with {len(self.broadcastable)}",
            )
        return patternbroadcast(constant(np.asarray(data)), self.broadcastable)


def load(path: Any, dtype: Any, broadcastable: Any, mmap_mode: str | None = None) -> _core.Variable:
    """The array of a .npy file as a constant. The file is read here, not at every call."""
    return LoadFromDisk(dtype, broadcastable, mmap_mode)(path)
