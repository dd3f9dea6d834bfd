"""Theano's module of this name: the classes of elementwise ops and reductions."""

from snug.tensor._op_classes import (
    All,
    Any,
    CAReduce,
    CAReduceDtype,
    DimShuffle,
    Elemwise,
    Prod,
    Sum,
)

__all__ = ["All", "Any", "CAReduce", "CAReduceDtype", "DimShuffle", "Elemwise", "Prod", "Sum"]
