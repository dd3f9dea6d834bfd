"""Theano's module of this name."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from snug._errors import error
from snug._function import function
from snug.tensor._basic import shape
from snug.tensor._helpers import hashtype

__all__ = ["hash_from_ndarray", "hashtype", "shape_of_variables"]


def hash_from_ndarray(data: Any) -> str:
    """A text that is the same for arrays of one dtype, shape and content."""
    data = np.asarray(data)
    digest = hashlib.sha256(f"{data.dtype.str} {data.shape} ".encode())
    digest.update(np.ascontiguousarray(data).tobytes())
    return digest.hexdigest()


def shape_of_variables(outputs: Any, input_shapes: dict[Any, Any]) -> dict[Any, tuple[int, ...]]:
    """The shapes of expressions, given {input: shape}; nothing but sizes is computed."""
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    for x, sizes in input_shapes.items():
        if len(sizes) != x.ndim:
            raise error(ValueError, f"shape_of_variables: {len(sizes)} sizes for {x.type} {x}")
    inputs = list(input_shapes)
    f = function(inputs, [shape(y) for y in outputs], on_unused_input="ignore")
    # One element in memory stands for all of them.
    values = [np.broadcast_to(np.zeros((), x.dtype), input_shapes[x]) for x in inputs]
    return {y: tuple(int(s) for s in sizes) for y, sizes in zip(outputs, f(*values))}
