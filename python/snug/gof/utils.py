"""Small helpers that programs written for Theano import."""

from __future__ import annotations

import functools
import hashlib
import string
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from snug.gof.graph import general_toposort

__all__ = [
    "MethodNotDefined",
    "deprecated",
    "difference",
    "flatten",
    "from_return_values",
    "give_variables_names",
    "hash_from_code",
    "hash_from_file",
    "hist",
    "memoize",
    "object2",
    "remove",
    "scratchpad",
    "to_return_values",
    "toposort",
    "uniq",
    "unique",
]

object2 = object


class MethodNotDefined(Exception):
    """A class has not the method that was asked for."""


class scratchpad:
    """An object to hang attributes on."""

    def clear(self) -> None:
        self.__dict__.clear()

    def __update__(self, other: Any) -> scratchpad:
        self.__dict__.update(other.__dict__)
        return self

    def __str__(self) -> str:
        return "scratchpad" + str(self.__dict__)


def toposort(prereqs_d: Mapping[Any, Iterable[Any]]) -> list[Any]:
    """The keys and their prerequisites, each after its own: {item: items that come before it}."""
    return general_toposort(list(prereqs_d), lambda item: prereqs_d.get(item, ()))


def uniq(seq: Iterable[Any]) -> list[Any]:
    """The different items, in the order of their first places."""
    return list(dict.fromkeys(seq))


def unique(x: Iterable[Any]) -> bool:
    """Whether no item occurs twice."""
    items = list(x)
    return len(set(items)) == len(items)


def difference(seq1: Iterable[Any], seq2: Iterable[Any]) -> list[Any]:
    """The items of one sequence that are not in the other."""
    other = set(seq2)
    return [x for x in seq1 if x not in other]


def remove(predicate: Callable[[Any], Any], coll: Iterable[Any]) -> list[Any]:
    """The items that the predicate does not hold for."""
    return [x for x in coll if not predicate(x)]


def hist(coll: Iterable[Any]) -> dict[Any, int]:
    """How often each item occurs."""
    counts: dict[Any, int] = {}
    for item in coll:
        counts[item] = counts.get(item, 0) + 1
    return counts


def flatten(a: Any) -> list[Any]:
    """The items of nested lists, tuples and sets, in one list."""
    found, stack = [], [a]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple, set)):
            stack.extend(reversed(list(item)))
        else:
            found.append(item)
    return found


def memoize(f: Callable[..., Any]) -> Callable[..., Any]:
    """f, which is called once for each set of arguments."""
    return functools.cache(f)


def deprecated(filename: str, msg: str = "") -> Callable[..., Any]:
    """A decorator of functions that warn, when they are called first, that they are old."""

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        said: list[bool] = []

        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not said:
                said.append(True)
                text = f"{filename}.{f.__name__} is deprecated. {msg}".rstrip()
                warnings.warn(text, DeprecationWarning, stacklevel=2)
            return f(*args, **kwargs)

        return call

    return decorate


def from_return_values(values: Any) -> list[Any]:
    """What a function returned, as a list."""
    return list(values) if isinstance(values, (list, tuple)) else [values]


def to_return_values(values: list[Any]) -> Any:
    """The only item of a list, or the list."""
    return values[0] if len(values) == 1 else values


def give_variables_names(variables: Iterable[Any]) -> list[str]:
    """Gives variables without a name one, and new ones to those whose names occur twice."""
    variables = list(variables)
    counts = hist(v.name for v in variables)
    taken = {name for name, count in counts.items() if name and count == 1}
    for number, v in enumerate(variables):
        if v.name in taken:
            continue
        letter = string.ascii_uppercase[number % 26]
        name, suffix = letter, 1
        while name in taken:
            name, suffix = f"{letter}_{suffix}", suffix + 1
        taken.add(name)
        v.name = name
    return [v.name for v in variables]


def hash_from_code(msg: str | bytes) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(msg.encode() if isinstance(msg, str) else msg).hexdigest()


def hash_from_file(file_path: str) -> str:
    """The SHA-256 of the bytes of a file."""
    with open(file_path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
