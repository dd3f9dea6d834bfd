"""What programs of past years expect: names that left NumPy and the standard library, and modules
of Python 2. `snug run` provides them while it runs a program; nothing that exists is replaced."""

from __future__ import annotations

import collections
import collections.abc
import importlib.util
import inspect
import math
import sys
import time
import types
import warnings
from typing import Any

import numpy as np

_NUMPY: dict[str, Any] = {
    "Inf": np.inf,
    "Infinity": np.inf,
    "NAN": np.nan,
    "NINF": -np.inf,
    "NZERO": -0.0,
    "NaN": np.nan,
    "PINF": np.inf,
    "PZERO": 0.0,
    "alen": len,
    "alltrue": np.all,
    "asfarray": lambda a, dtype=np.float64: np.asarray(a, dtype),
    "asscalar": lambda a: np.asarray(a).item(),
    "bool": bool,
    "bool8": np.bool_,
    "cast": {name: (lambda x, d=dtype: np.asarray(x, d)) for name, dtype in np.sctypeDict.items()},
    "cfloat": np.complex128,
    "complex": complex,
    "complex_": np.complex128,
    "cumproduct": np.cumprod,
    "find_common_type": lambda arrays, scalars: np.result_type(*arrays, *scalars),
    "float": float,
    "float_": np.float64,
    "in1d": np.isin,
    "infty": np.inf,
    "int": int,
    "int0": np.intp,
    "issubclass_": lambda a, b: isinstance(a, type) and issubclass(a, b),
    "long": int,
    "msort": lambda a: np.sort(a, axis=0),
    "object": object,
    "object0": np.object_,
    "product": np.prod,
    "rank": np.ndim,
    "round_": np.round,
    "row_stack": np.vstack,
    "singlecomplex": np.complex64,
    "sometrue": np.any,
    "str": str,
    "string_": np.bytes_,
    "trapz": getattr(np, "trapezoid", None),
    "typeDict": np.sctypeDict,
    "unicode": str,
    "unicode_": np.str_,
}

# A module of Python 2 and the modules in which its names are now.
_PYTHON_2 = {
    "ConfigParser": ("configparser",),
    "Queue": ("queue",),
    "StringIO": ("io",),
    "__builtin__": ("builtins",),
    "cPickle": ("pickle",),
    "cStringIO": ("io",),
    "copy_reg": ("copyreg",),
    "thread": ("_thread",),
    "urllib2": ("urllib.request", "urllib.error"),
    "urlparse": ("urllib.parse",),
}

_SIX_MOVES: dict[str, Any] = {
    "cPickle": "pickle",
    "configparser": "configparser",
    "copyreg": "copyreg",
    "filter": filter,
    "input": input,
    "map": map,
    "queue": "queue",
    "range": range,
    "StringIO": "io.StringIO",
    "urllib": "urllib",
    "xrange": range,
    "zip": zip,
}


def _getargspec(function: Any) -> tuple[Any, ...]:
    """What inspect.getargspec gave."""
    spec = inspect.getfullargspec(function)
    fields = collections.namedtuple("ArgSpec", "args varargs keywords defaults")
    return fields(spec.args, spec.varargs, spec.varkw, spec.defaults)


def _add(module: types.ModuleType, names: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a module may warn of names that it will have
        for name, value in names.items():
            if not hasattr(module, name) and value is not None:
                setattr(module, name, value)


def _alias(name: str, sources: tuple[str, ...]) -> types.ModuleType:
    modules = [importlib.import_module(s) for s in sources]
    if len(modules) == 1:
        return modules[0]
    alias = types.ModuleType(name)
    for module in modules:
        alias.__dict__.update({n: v for n, v in vars(module).items() if not n.startswith("_")})
    return alias


def _six() -> types.ModuleType:
    """The part of `six` that programs use, where it is not installed."""
    six = types.ModuleType("six")
    moves = types.ModuleType("six.moves")
    for name, value in _SIX_MOVES.items():
        if isinstance(value, str):
            module, _, attribute = value.partition(".")
            value = importlib.import_module(module)
            value = getattr(value, attribute) if attribute else value
        setattr(moves, name, value)
        if isinstance(value, types.ModuleType):  # import six.moves.cPickle
            sys.modules[f"six.moves.{name}"] = value
    for name in ("request", "parse", "error"):  # six.moves.urllib.request
        importlib.import_module("urllib." + name)
        sys.modules["six.moves.urllib." + name] = sys.modules["urllib." + name]
    six.__dict__.update(
        __path__=[],
        PY2=False,
        PY3=True,
        moves=moves,
        string_types=(str,),
        integer_types=(int,),
        class_types=(type,),
        text_type=str,
        binary_type=bytes,
        iteritems=lambda d: iter(d.items()),
        iterkeys=lambda d: iter(d.keys()),
        itervalues=lambda d: iter(d.values()),
        b=lambda s: s.encode("latin-1"),
        u=lambda s: s,
        get_unbound_function=lambda f: f,
        callable=callable,
        next=next,
        add_metaclass=lambda meta: lambda cls: meta(cls.__name__, cls.__bases__, dict(vars(cls))),
        with_metaclass=lambda meta, *bases: meta("temporary", bases, {}),
    )
    moves.__path__ = []  # type: ignore[attr-defined]
    sys.modules["six.moves"] = moves
    return six


def provide() -> None:
    """Puts the old names in place."""
    _add(np, _NUMPY)
    _add(collections, {name: getattr(collections.abc, name) for name in collections.abc.__all__})
    _add(inspect, {"getargspec": _getargspec})
    _add(time, {"clock": time.perf_counter})
    import fractions

    _add(fractions, {"gcd": math.gcd})
    for name, sources in _PYTHON_2.items():
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules[name] = _alias(name, sources)
    if importlib.util.find_spec("six") is None:
        sys.modules["six"] = _six()
