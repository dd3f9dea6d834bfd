"""Products of a few blocks of a large block matrix."""

from __future__ import annotations

from typing import Any

from snug import _core

__all__ = ["sparse_block_dot"]


def sparse_block_dot(W: Any, h: Any, inputIdx: Any, b: Any, outputIdx: Any) -> _core.Variable:
    """Per element of the batch, the blocks outputIdx of a product with the blocks inputIdx.

    W          (input blocks, output blocks, input size, output size)
    h          (batch, input window, input size), or without the batch: one element
    inputIdx   (batch, input window): which input blocks h holds
    b          (output blocks, output size): added
    outputIdx  (batch, output window): which output blocks are wanted
    """
    W, h, b = (_core.as_tensor(a, "sparse_block_dot") for a in (W, h, b))
    inputs, outputs = (_core.as_tensor(a, "sparse_block_dot") for a in (inputIdx, outputIdx))
    if h.ndim == 2:
        h, inputs, outputs = (a.dimshuffle("x", *range(a.ndim)) for a in (h, inputs, outputs))
    # (batch, input window, output window, input size, output size)
    blocks = W[inputs.dimshuffle(0, 1, "x"), outputs.dimshuffle(0, "x", 1)]
    product = (h.dimshuffle(0, 1, "x", 2, "x") * blocks).sum(axis=(1, 3))
    return product + b[outputs]
