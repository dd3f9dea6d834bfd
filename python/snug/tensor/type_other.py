"""Theano's module of this name: None and slices as things with a type."""

from snug.tensor._helpers import (
    NoneConst,
    NoneTypeT,
    SliceConstant,
    SliceType,
    none_type_t,
    slicetype,
)
from snug.tensor._indices import as_int_none_variable
from snug.tensor._op_classes import (
    MakeSlice,
    make_slice,
)

__all__ = [
    "MakeSlice",
    "NoneConst",
    "NoneTypeT",
    "SliceConstant",
    "SliceType",
    "as_int_none_variable",
    "make_slice",
    "none_type_t",
    "slicetype",
]
