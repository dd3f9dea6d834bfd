"""Offsets of buffers: the MiniMalloc instances, a training step of idealloc, 60,000 generated ones,
and rectangles cut to pieces, whose lowest height is known.

    .venv/bin/python benchmarks/packing.py DATA [--tool PATH] [--rounds 2] [--seeds 20]

DATA has the folders minimalloc/ (A.1048576.csv ..., those of G to K that are there) and idealloc/
(pangu_2.6B.csv). Each row is a process of `snug pack`, which packs on one thread: the CPU time of
packing and the whole time of the process (loading, reading), the better of the rounds each. Of the
cut rectangles (cut_rectangles.py, so many seeds of each kind) a row says how many are packed within
their capacity in 0.1, 1 and 10 s of CPU time.
"""

import argparse
import collections
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import cut_rectangles

# Seconds of MiniMalloc as published; other machines.
PUBLISHED = {"A": 4.910, "B": 3.661, "C": 0.637, "D": 2.674, "E": 3.717, "F": 5.358}
UNPUBLISHED = "GHIJK"  # of the same origin, without times
CAPACITY = 1048576
GENERATED = 60_000
WORK_OF_10_S = 4_000_000_000


def magnitude(rng, most):
    """From 1 to most, all orders of magnitude alike."""
    return int(math.exp(math.log(most) * rng.random()))


def training(rng, i, end):
    """One of 20 is kept until its gradient, the others live for up to 20 steps."""
    if i % 20 == 0:
        lower = rng.randrange(end // 2)
        return lower, end - lower + rng.randrange(50)
    lower = rng.randrange(end - 1)
    return lower, lower + 1 + rng.randrange(20)


def uniform(rng, i, end):
    """Lives of all magnitudes, anywhere."""
    lower = rng.randrange(end)
    return lower, lower + 1 + magnitude(rng, end / 4)


def even(rng, i, end):
    """Lives of up to 200 steps, all lengths alike."""
    lower = rng.randrange(end)
    return lower, lower + 1 + rng.randrange(200)


def mixture(rng, i, end):
    """Nine of ten live for up to 10 steps, the others for up to half of all."""
    lower = rng.randrange(end)
    return lower, lower + 1 + rng.randrange(10 if rng.random() < 0.9 else end // 2)


def six_decades(rng):
    return 64 * (1 + magnitude(rng, 1e6))


def one_decade(rng):
    return 64 * (1 + rng.randrange(10_000))


def power_of_two(rng):
    return 64 << rng.randrange(20)


KINDS = [
    ("of a training", training, six_decades),
    ("uniform", uniform, six_decades),
    ("even", even, one_decade),
    ("powers of two", uniform, power_of_two),
    ("short and long", mixture, six_decades),
]


def generate(path, life, bytes_of):
    rng = random.Random(1)
    with open(path, "w") as file:
        print("id,lower,upper,size", file=file)
        for i in range(GENERATED):
            size = bytes_of(rng)
            lower, upper = life(rng, i, GENERATED)
            print(f"{i},{lower},{min(upper, GENERATED)},{size}", file=file)


def pack(tool, rounds, path, *options):
    """The answer of the tool, the CPU seconds of packing and the seconds of the process."""
    best = cpu = math.inf
    for _ in range(rounds):
        start = time.perf_counter()
        done = subprocess.run(
            [tool, "pack", str(path), "--json", *options], capture_output=True, text=True
        )
        best = min(best, time.perf_counter() - start)
        if not done.stdout:
            sys.exit(done.stderr)
        answer = json.loads(done.stdout)
        cpu = min(cpu, answer["cpu_seconds"])
    return answer, cpu, best


def row(name, answer, cpu, seconds, published=""):
    state = "proved" if answer["proved"] else "at most"
    print(
        f"{name:<24}{answer['buffers']:>7}{answer['load']:>13}{answer['height']:>13}"
        f"{answer['height'] / answer['load']:>9.4f} {state:<8}{answer['nodes']:>9}"
        f"{cpu:>8.3f}{seconds:>9.3f}{published:>10}",
        flush=True,
    )


def cut(tool, seeds):
    """How many of each kind are packed in time."""
    print(f"{'cut':<24}{'number':>7}{'0.1 s':>7}{'1 s':>7}{'10 s':>7}{'slowest s':>11}  not packed")
    kinds = collections.defaultdict(list)
    for instance in cut_rectangles.instances(seeds):
        kinds[f"{instance.kind}, {instance.sizes}, {instance.slack} %"].append(instance)
    total = collections.Counter()
    with tempfile.TemporaryDirectory() as temporary:
        path = pathlib.Path(temporary) / "cut.csv"
        for kind, members in kinds.items():
            seconds, left = [], []
            for instance in members:
                path.write_text(instance.text())
                limits = "--capacity", str(instance.capacity), "--work", str(WORK_OF_10_S)
                answer, cpu, _ = pack(tool, 1, path, *limits)
                (seconds if answer["fits"] else left).append(cpu if answer["fits"] else instance)
            within = [sum(s <= limit for s in seconds) for limit in (0.1, 1, 10)]
            total.update(dict(enumerate([len(members), *within])))
            counts = "".join(f"{n:>7}" for n in [len(members), *within])
            seeds_left = " ".join(str(instance.seed) for instance in left)
            slowest = max(seconds, default=0)
            print(f"{kind:<24}{counts}{slowest:>11.3f}  {seeds_left}", flush=True)
    print(f"{'all':<24}" + "".join(f"{total[k]:>7}" for k in range(4)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--tool", default=pathlib.Path(sys.executable).parent / "snug")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    tool, rounds = options.tool, options.rounds
    print(
        f"{'':<24}{'buffers':>7}{'load':>13}{'height':>13}{'/ load':>9} {'':<8}{'nodes':>9}"
        f"{'CPU s':>8}{'process':>9}{'published':>10}"
    )
    print(f"capacity {CAPACITY}")
    folder = options.data / "minimalloc"
    for name in [*PUBLISHED, *UNPUBLISHED]:
        path = folder / f"{name}.{CAPACITY}.csv"
        if name in UNPUBLISHED and not path.exists():
            continue
        answer, *seconds = pack(tool, rounds, path, "--capacity", str(CAPACITY))
        row(name, answer, *seconds, f"{PUBLISHED[name]:.3f}" if name in PUBLISHED else "")
        if not answer["fits"]:
            print("  does not fit")
    print("lowest height")
    row("D", *pack(tool, 1, folder / f"D.{CAPACITY}.csv", "--work", "20000000000"))
    print("large")
    row("pangu_2.6B", *pack(tool, rounds, options.data / "idealloc" / "pangu_2.6B.csv"))
    with tempfile.TemporaryDirectory() as temporary:
        path = pathlib.Path(temporary) / "generated.csv"
        for name, life, bytes_of in KINDS:
            generate(path, life, bytes_of)
            row(f"60,000 {name}", *pack(tool, rounds, path))
    cut(tool, options.seeds)


if __name__ == "__main__":
    main()
