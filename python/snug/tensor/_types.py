"""Variables by name: T.matrix("x"), T.ivector("y"), T.dmatrices("a", "b")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snug import _core
from snug._config import config

_LETTERS = {
    "b": "int8",
    "w": "int16",
    "i": "int32",
    "l": "int64",
    "f": "float32",
    "d": "float64",
    "c": "complex64",
    "z": "complex128",
}
_PATTERNS = {
    "scalar": (),
    "vector": (False,),
    "row": (True, False),
    "col": (False, True),
    "matrix": (False, False),
    "tensor3": (False,) * 3,
    "tensor4": (False,) * 4,
    "tensor5": (False,) * 5,
    "tensor6": (False,) * 6,
    "tensor7": (False,) * 7,
}
_PLURALS = {"matrix": "matrices", "col": "cols"}

__all__ = ["TensorType", "tensor"]

TensorType = _core.TensorType


def tensor(
    dtype: str | None = None,
    broadcastable: Any = (),
    name: str | None = None,
    shape: Any = None,
) -> _core.TensorVariable:
    """A variable of any type; `shape` gives the sizes that are known, None for the others. An axis
    of size 1 stretches, unless `broadcastable` says that it does not."""
    if shape is not None and not broadcastable:
        broadcastable = None
    return TensorType(dtype or config.floatX, broadcastable, shape=shape)(name)


def _of_default_float(kind: str, pattern: tuple[bool, ...]) -> Callable[..., Any]:
    def make(name: str | None = None, dtype: Any = None, shape: Any = None) -> _core.TensorVariable:
        return TensorType(config.floatX if dtype is None else dtype, pattern)(name, shape)

    make.__name__ = make.__qualname__ = kind
    make.__doc__ = (
        f"A {kind} variable, of dtype config.floatX unless told otherwise; `shape` gives the sizes "
        "that are known, None for the others."
    )
    return make


def _several(make: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def make_all(*names: Any) -> list[Any]:
        if len(names) == 1 and isinstance(names[0], int):
            return [make() for _ in range(names[0])]
        if len(names) == 1 and isinstance(names[0], str):
            names = tuple(names[0].split()) if " " in names[0] else tuple(names[0])
        return [make(name) for name in names]

    make_all.__name__ = make_all.__qualname__ = kind
    make_all.__doc__ = "Several variables: a number of them, or one per name."
    return make_all


for _kind, _pattern in _PATTERNS.items():
    _plural = _PLURALS.get(_kind, _kind + "s")
    for _letter, _dtype in {"": None, **_LETTERS}.items():
        _make: Any = (
            _of_default_float(_kind, _pattern) if _dtype is None else TensorType(_dtype, _pattern)
        )
        globals()[_letter + _kind] = _make
        globals()[_letter + _plural] = _several(_make, _letter + _plural)
        __all__ += [_letter + _kind, _letter + _plural]
