"""Random expressions: every call of a function that uses one draws new numbers."""

from __future__ import annotations

import hashlib
import math
import operator
from typing import Any

from snug import _core
from snug._config import config
from snug._errors import error

__all__ = ["RandomStreams"]


def _seed_of(seed: Any) -> int:
    """A seed as a number: a list of integers, as Theano's MRG_RandomStreams takes six of them, is
    hashed."""
    try:
        entries = [operator.index(seed)] if not hasattr(seed, "__len__") else list(seed)
        entries = [operator.index(e) for e in entries]
    except TypeError:
        entries = []
    if not entries or not all(0 <= e < 2**64 for e in entries):
        raise error(
            ValueError,
            f"RandomStreams: a seed is an integer from 0 to 2**64 - 1 or a list, got {seed!r}",
        )
    if not hasattr(seed, "__len__"):
        return entries[0]
    text = b"".join(e.to_bytes(8, "little") for e in entries)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


class RandomStreams:
    """A source of random variables. Each has a state of its own, a shared variable that moves on
    by its default update at every call; all follow from the seed."""

    def __init__(self, seed: Any = None):
        self.default_instance_seed = 42 if seed is None else _seed_of(seed)
        self.stream = _core.RandomStream(self.default_instance_seed)
        self._states: list[_core.SharedVariable] = []

    def _drawn(self, x: _core.Variable) -> _core.Variable:
        for v in _core.ancestors([x]):
            is_state = isinstance(v, _core.SharedVariable) and v.default_update is not None
            if is_state and v not in self._states:
                self._states.append(v)
        return x

    @staticmethod
    def _size(size: Any) -> Any:
        return () if size is None else size

    def uniform(
        self,
        size: Any = None,
        low: Any = 0.0,
        high: Any = 1.0,
        ndim: int | None = None,
        dtype: Any = None,
    ) -> _core.Variable:
        """Uniform numbers from low to high."""
        dtype = config.floatX if dtype is None else dtype
        if isinstance(low, (int, float)) and isinstance(high, (int, float)):
            return self._drawn(self.stream.uniform(self._size(size), low, high, dtype))
        unit = self._drawn(self.stream.uniform(self._size(size), 0.0, 1.0, dtype))
        low = _core.cast(low, dtype)
        return low + unit * (_core.cast(high, dtype) - low)

    def normal(
        self,
        size: Any = None,
        avg: Any = 0.0,
        std: Any = 1.0,
        ndim: int | None = None,
        dtype: Any = None,
        truncate: bool = False,
    ) -> _core.Variable:
        """Normal numbers of mean avg and deviation std; with truncate only those that are at most
        2 std from avg."""
        dtype = config.floatX if dtype is None else dtype
        if truncate:
            share = math.erf(math.sqrt(2))  # of numbers that are not left out
            drawn = self._drawn(self.stream.uniform(self._size(size), -share, share, dtype))
            unit = _core.clip(_core.erfinv(drawn) * _core.cast(math.sqrt(2), dtype), -2, 2)
            return _core.cast(avg, dtype) + unit * _core.cast(std, dtype)
        if isinstance(avg, (int, float)) and isinstance(std, (int, float)):
            return self._drawn(self.stream.normal(self._size(size), avg, std, dtype))
        unit = self._drawn(self.stream.normal(self._size(size), 0.0, 1.0, dtype))
        return _core.cast(avg, dtype) + unit * _core.cast(std, dtype)

    def binomial(
        self,
        size: Any = None,
        n: int = 1,
        p: Any = 0.5,
        ndim: int | None = None,
        dtype: Any = "int64",
        prob: Any = None,
    ) -> _core.Variable:
        """How many of n trials succeed, each with probability p."""
        if prob is not None:
            p = prob
        if not isinstance(n, int) or n < 1:
            raise error(ValueError, f"binomial: n must be an integer of at least 1, got {n!r}")
        sizes = self._size(size)
        if n == 1:
            return self._drawn(self.stream.bernoulli(sizes, p, dtype))
        if isinstance(sizes, _core.Variable):
            sizes = list(sizes)
        elif isinstance(sizes, int):
            sizes = [sizes]
        draws = self.stream.bernoulli([n, *sizes], p, dtype)
        return self._drawn(_core.sum(draws, 0, dtype))

    def seed(self, seed: Any = None) -> None:
        """Starts all random variables made so far again from a seed."""
        self.stream.seed(self.default_instance_seed if seed is None else _seed_of(seed))

    def state_updates(self) -> list[tuple[_core.SharedVariable, _core.Variable]]:
        """(state, next state) of every random variable. Functions apply them by themselves."""
        return [(s, s.default_update) for s in self._states]

    def updates(self) -> list[tuple[_core.SharedVariable, _core.Variable]]:
        """The same as state_updates()."""
        return self.state_updates()
