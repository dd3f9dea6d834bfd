"""`theano.compat`: names that differed between versions of Python."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from functools import partial

PY3 = True
izip, imap, ifilter = zip, map, filter

__all__ = [
    "PY3",
    "Callable",
    "Iterable",
    "Mapping",
    "MutableMapping",
    "OrderedDict",
    "defaultdict",
    "ifilter",
    "imap",
    "izip",
    "partial",
]
