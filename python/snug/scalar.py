"""Scalar types and scalar ops, as programs written for Theano name them.

A scalar is a 0-d tensor here: a scalar type makes 0-d variables, and a scalar op is the elementwise
op of the same name, to be handed to `Elemwise` and `CAReduce` or compared with
`v.owner.op.scalar_op`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import snug.tensor as T
from snug import _core, _op_class
from snug._errors import error
from snug.tensor import _dtypes, _helpers

ScalarVariable = _core.TensorVariable
ScalarConstant = _core.TensorConstant
ScalarSharedVariable = _core.TensorSharedVariable


class Scalar:
    """The type of a scalar: `float32("x")` makes a 0-d variable."""

    ndim = 0
    broadcastable = ()

    def __init__(self, dtype: Any) -> None:
        self.dtype = _core.dtype_name(dtype)
        self.tensor_type = _core.TensorType(self.dtype, ())

    def __call__(self, name: str | None = None) -> _core.TensorVariable:
        return self.tensor_type(name)

    make_variable = __call__

    def filter(self, data: Any, strict: bool = False, allow_downcast: Any = None) -> Any:
        """The value as an array of this type, or a TypeError."""
        return self.tensor_type.filter(data, strict, allow_downcast)

    def is_valid_value(self, data: Any) -> bool:
        return self.tensor_type.is_valid_value(data)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Scalar) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((Scalar, self.dtype))

    def __repr__(self) -> str:
        return self.dtype


class ScalarOp:
    """An op on scalars. Its function is the elementwise one, so it takes tensors as well."""

    name: str
    function: str  # of snug.tensor
    rows: frozenset[str] = frozenset()  # an op of one of these rows is this one
    nin = -1
    nout = 1

    def __call__(self, *inputs: Any, **kwargs: Any) -> _core.Variable:
        return getattr(T, self.function)(*inputs, **kwargs)

    def make_node(self, *inputs: Any) -> _core.Apply:
        return self(*inputs).owner

    def __eq__(self, other: Any) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __repr__(self) -> str:
        return self.name


class UnaryScalarOp(ScalarOp):
    """A scalar op of one input."""

    nin = 1


class BinaryScalarOp(ScalarOp):
    """A scalar op of two inputs."""

    nin = 2


# The class, the instance (= the function of snug.tensor, if its name differs), and the rows.
_UNARY = """
Abs abs_ abs|Angle angle|ArcCos arccos acos|ArcCosh arccosh acosh|ArcSin arcsin asin
ArcSinh arcsinh asinh|ArcTan arctan atan|ArcTanh arctanh atanh|Ceil ceil ceil|Conj conj
Cos cos cos|Cosh cosh cosh|Deg2Rad deg2rad|Erf erf erf|Erfc erfc erfc|Erfcinv erfcinv erfcinv
Erfcx erfcx erfcx|Erfinv erfinv erfinv|Exp exp exp|Exp2 exp2 exp2|Expm1 expm1 expm1
Floor floor floor|Gamma gamma gamma|GammaLn gammaln gammaln|I0 i0 i0|I1 i1 i1
Identity identity=tensor_copy|Imag imag|Inv inv|Invert invert invert|IsInf isinf isinf
IsNan isnan isnan|J0 j0 j0|J1 j1 j1|Log log log|Log10 log10 log10|Log1p log1p log1p
Log2 log2 log2|Neg neg neg|Psi psi digamma|Rad2Deg rad2deg|Real real
RoundHalfAwayFromZero round_half_away_from_zero
RoundHalfToEven round_half_to_even round|Sgn sgn sign|Sin sin sin|Sinh sinh sinh|Sqr sqr sqr
Sqrt sqrt sqrt|ScalarSigmoid sigmoid sigmoid|ScalarSoftplus softplus softplus|Tan tan tan
Tanh tanh tanh|TriGamma tri_gamma trigamma|Trunc trunc trunc
"""
_BINARY = """
Sub sub sub|TrueDiv true_div div|IntDiv int_div floor_div|Mod mod mod|Pow pow pow
Second second|EQ eq eq|NEQ neq ne|LT lt lt|LE le le|GT gt gt|GE ge ge|ArcTan2 arctan2 atan2
Chi2SF chi2sf|Complex complex|ComplexFromPolar complex_from_polar
GammaInc gammainc gammainc|GammaIncC gammaincc gammaincc|GammaL gammal|GammaU gammau
Iv iv iv|Jv jv jv|Maximum maximum maximum|Minimum minimum minimum
"""
_VARIADIC = """
Add add add|Mul mul mul|AND and_ bit_and
OR or_ bit_or|XOR xor bit_xor|Switch switch switch|Clip clip
"""

__all__ = [
    "BinaryScalarOp",
    "Cast",
    "Scalar",
    "ScalarConstant",
    "ScalarOp",
    "ScalarSharedVariable",
    "ScalarVariable",
    "UnaryScalarOp",
    "as_common_dtype",
    "as_scalar",
    "cast",
    "constant",
    "convert",
    "floor_div",
    "get_scalar_type",
    "upcast",
]
_by_row: dict[str, ScalarOp] = {}

for _base, _lines in ((UnaryScalarOp, _UNARY), (BinaryScalarOp, _BINARY), (ScalarOp, _VARIADIC)):
    for _entry in _lines.strip().replace("\n", "|").split("|"):
        _class_name, _name, *_rows = _entry.split()
        _name, _, _function = _name.partition("=")
        _function = _function or _name
        _members = {"name": _name, "function": _function, "rows": frozenset(_rows)}
        _class = type(_class_name, (_base,), _members)
        _class.__module__, _class.__doc__ = __name__, f"snug.tensor.{_function} as a scalar op."
        globals()[_class_name], globals()[_name] = _class, _class()
        _by_row.update((row, globals()[_name]) for row in _rows)
        __all__ += [_class_name, _name]


floor_div = globals()["int_div"]


class Cast(UnaryScalarOp):
    """A conversion to a scalar type."""

    rows = frozenset(["cast"])

    def __init__(self, o_type: Scalar, name: str | None = None) -> None:
        self.o_type, self.name = o_type, name or f"convert_to_{o_type.dtype}"

    def __call__(self, x: Any) -> _core.Variable:
        return T.cast(x, self.o_type.dtype)


# ---- types

for _dtype in _dtypes.all_dtypes:
    globals()[_dtype] = Scalar(_dtype)
    globals()[f"convert_to_{_dtype}"] = Cast(globals()[_dtype])
    __all__ += [_dtype, f"convert_to_{_dtype}"]


def _types(dtypes: list[str]) -> tuple[Scalar, ...]:
    return tuple(globals()[d] for d in dtypes)


int_types, uint_types = _types(_dtypes.int_dtypes), _types(_dtypes.uint_dtypes)
integer_types = int_types + uint_types
float_types, complex_types = _types(_dtypes.float_dtypes), _types(_dtypes.complex_dtypes)
discrete_types, continuous_types = _types(_dtypes.discrete_dtypes), float_types + complex_types
all_types = discrete_types + continuous_types
__all__ += ["all_types", "complex_types", "continuous_types", "discrete_types", "float_types"]
__all__ += ["int_types", "integer_types", "uint_types"]


def get_scalar_type(dtype: Any) -> Scalar:
    """The scalar type of a dtype."""
    return Scalar(dtype)


def upcast(dtype: Any, *dtypes: Any) -> str:
    """The dtype that holds values of all the given ones."""
    return _core.upcast(dtype, *dtypes)


def constant(x: Any, name: str | None = None, dtype: Any = None) -> _core.TensorConstant:
    """A 0-d constant."""
    return as_scalar(T.constant(x, name, dtype=dtype))


def as_scalar(x: Any, name: str | None = None) -> _core.Variable:
    """x as a 0-d expression."""
    result = _helpers.as_scalar(x, "as_scalar")
    if name is not None and result is not x:
        result.name = name
    return result


def as_common_dtype(*variables: Any) -> tuple[_core.Variable, ...]:
    """The variables converted to the dtype that holds them all."""
    dtype = _core.upcast(*(v.dtype for v in variables))
    return tuple(T.cast(v, dtype) for v in variables)


def cast(x: Any, dtype: Any) -> _core.Variable:
    """x converted to a dtype."""
    return as_scalar(T.cast(x, dtype))


def convert(x: Any, dtype: Any = None) -> np.ndarray:
    """A number as an array without dimensions, of the smallest dtype that holds it."""
    return constant(x, dtype=dtype).data


def _of_op(self) -> object:
    if self.name == "cast":
        return Cast(Scalar(self.attrs["dtype"]))
    if self.name not in _by_row:
        raise error(AttributeError, f"{self.name} is not made of a scalar op")
    return _by_row[self.name]


_op_class.add_attribute("scalar_op", _of_op, "The scalar op of an elementwise op.")
