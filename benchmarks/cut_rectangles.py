"""Buffers that fit exactly: a rectangle of time x offset, cut to pieces.

An instance is known by kind, sizes, slack and seed, and is the same on any machine.
"""

import dataclasses
import itertools
import random

TIMES = 1000
HEIGHT = 1 << 20
FEW = 32  # levels of offsets where sizes are few


@dataclasses.dataclass(frozen=True)
class Instance:
    kind: str  # of the cuts
    sizes: str  # few: multiples of HEIGHT / FEW; many: of 1
    slack: int  # of the capacity above the height, in hundredths of it
    seed: int

    @property
    def name(self):
        return f"{self.kind}-{self.sizes}-{self.slack}-{self.seed}"

    @property
    def capacity(self):
        return HEIGHT + HEIGHT * self.slack // 100

    def buffers(self):
        """Tuples of lower, upper and size, whose lowest height is HEIGHT."""
        rng = random.Random(f"{self.kind} {self.sizes} {self.seed}")
        cut = {"guillotine": guillotine, "pinwheel": pinwheel}[self.kind]
        wanted = 100 + int(rng.random() * 401)
        by_area = self.seed % 2 == 0  # else large and small pieces are cut alike
        scale = HEIGHT // FEW if self.sizes == "few" else 1
        pieces = [(0, TIMES, 0, HEIGHT // scale)]
        while len(pieces) < wanted:
            at = max(pick(rng, pieces) for _ in range(3 if by_area else 1))[1]
            pieces[at : at + 1] = cut(rng, *pieces[at])
        rng.shuffle(pieces)
        return [(lower, upper, (top - bottom) * scale) for lower, upper, bottom, top in pieces]

    def text(self):
        rows = [f"{i},{a},{b},{size}" for i, (a, b, size) in enumerate(self.buffers())]
        return "\n".join(["id,lower,upper,size", *rows, ""])


def pick(rng, pieces):
    at = int(rng.random() * len(pieces))
    lower, upper, bottom, top = pieces[at]
    return (upper - lower) * (top - bottom), at


def between(rng, low, high):
    """A whole number above low and below high."""
    return low + 1 + int(rng.random() * (high - low - 1))


def guillotine(rng, lower, upper, bottom, top):
    """In two, across or along time."""
    if rng.random() < 0.5:
        if upper - lower < 2:
            return [(lower, upper, bottom, top)]
        t = between(rng, lower, upper)
        return [(lower, t, bottom, top), (t, upper, bottom, top)]
    if top - bottom < 2:
        return [(lower, upper, bottom, top)]
    y = between(rng, bottom, top)
    return [(lower, upper, bottom, y), (lower, upper, y, top)]


def pinwheel(rng, lower, upper, bottom, top):
    """Four around a fifth, either way round; in two where there is no room for that."""
    if upper - lower < 3 or top - bottom < 3:
        return guillotine(rng, lower, upper, bottom, top)
    left = between(rng, lower, upper - 1)
    right = between(rng, left, upper)
    low = between(rng, bottom, top - 1)
    high = between(rng, low, top)
    if rng.random() < 0.5:
        return [
            (lower, right, bottom, low),
            (right, upper, bottom, high),
            (left, upper, high, top),
            (lower, left, low, top),
            (left, right, low, high),
        ]
    return [
        (left, upper, bottom, low),
        (right, upper, low, top),
        (lower, right, high, top),
        (lower, left, bottom, high),
        (left, right, low, high),
    ]


def instances(seeds):
    """So many of each kind."""
    kinds = itertools.product(["guillotine", "pinwheel"], ["few", "many"], [0, 1, 5], range(seeds))
    return [Instance(*each) for each in kinds]
