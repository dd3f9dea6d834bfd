"""A training step of a reference model within a budget: what was planned, and what it takes.

    .venv/bin/python benchmarks/memory_step.py MODEL BATCH BUDGET SECONDS

BUDGET is in bytes (0: none), or as 50%: so far from what the plain plan takes down to its floor.
With ",file" behind it, values go to a file in build/, and nothing else is tried. Steps are made for
so many seconds. Prints one object of JSON; its high-water mark is that of one more step.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from convnets_worker import forget_high_water

import snug
import snug.tensor as T
from snug import nn, optim

# Of one example, as published.
SIZES = {
    **dict.fromkeys(("logistic", "mlp", "autoencoder"), (1, 28, 28)),
    **dict.fromkeys(("vgg16", "vgg19", "resnet50", "mobilenet"), (3, 224, 224)),
    **dict.fromkeys(("fcn8", "segnet"), (3, 416, 608)),
    **{"unet": (1, 256, 256), "lstm": (28, 28), "transformer": (128, 768)},
}


class Training:
    """A training step with momentum, to be made into functions with different budgets."""

    def __init__(self, name, example=None):
        snug.config.floatX = "float32"
        self.example = example or SIZES[name]
        model = nn.make_model(name, self.example)
        x = T.TensorType("float32", (False,) * (1 + len(self.example)))("x")
        scores = model(x, training=True)
        self.classes, self.pixels = scores.type.shape[1], scores.ndim == 4
        if name != "autoencoder":
            y = T.ltensor3("y") if self.pixels else T.lvector("y")
            self.inputs, self.loss = [x, y], nn.cross_entropy(scores, y, axis=1)
        else:
            self.inputs, self.loss = [x], nn.binary_cross_entropy(scores, x.flatten(2))
        self.updates = optim.momentum(self.loss, model.parameters(), 1e-3, momentum=0.9)

    def function(self, budget=0, **options):
        """`budget` in bytes; 0: none."""
        memory = {"memory": budget} if budget else {}
        return snug.function(self.inputs, self.loss, updates=self.updates, **memory, **options)

    def shapes(self, batch):
        labels = (batch, *self.example[1:]) if self.pixels else (batch,)
        return [(batch, *self.example), labels][: len(self.inputs)]

    def arguments(self, batch):
        rng = np.random.default_rng(1)
        images, *labels = self.shapes(batch)
        return [rng.random(images, np.float32), *(rng.integers(0, self.classes, s) for s in labels)]

    def plan(self, batch, budget=0):
        """The plan, or None where there is none within the budget."""
        try:
            return self.function(budget, plan_only=True).memory(*self.shapes(batch))
        except MemoryError:
            return None


def bytes_of(budget, plain):
    """A budget in bytes of a number or a part of the way down to the floor."""
    if not budget.endswith("%"):
        return int(budget)
    return int(plain.peak - (plain.peak - plain.floor) * float(budget[:-1]) / 100)


def steps_for(f, arguments, seconds):
    """The seconds of steps, made for so long, after the first one, which also compiles."""
    f(*arguments)
    times = []
    while sum(times) < seconds or len(times) < 2:
        times.append(seconds_of(f, arguments))
    return times


def seconds_of(f, arguments):
    start = time.perf_counter()
    f(*arguments)
    return time.perf_counter() - start


def times_by_turns(functions, arguments, rounds):
    """For each round the seconds of one step of each function, after a first one each."""
    for f in functions:
        f(*arguments)
    return [[seconds_of(f, arguments) for f in functions] for _ in range(rounds)]


def measure(name, batch, budget, seconds):
    budget, _, way = budget.partition(",")
    if not way:
        return measure_within(budget, {}, name, batch, seconds)
    if way != "file":
        raise SystemExit(f"memory_step.py: no way {way!r}: only file may stand behind a budget")
    build = Path(__file__).parents[1] / "build"
    with tempfile.TemporaryDirectory(dir=build) as folder:
        alone = {"recompute": False, "micro_batches": 1, "offload": folder}
        return measure_within(budget, alone, name, batch, seconds)


def measure_within(budget, options, name, batch, seconds):
    training = Training(name)
    plain = training.plan(batch)
    limit = bytes_of(budget, plain)
    row = {"model": name, "batch": batch, "budget": limit, "plain": plain.peak}
    row["plain_predicted"] = plain.seconds
    f = training.function(limit, **options)
    arguments = training.arguments(batch)
    try:
        plan = f.memory(*training.shapes(batch))
    except MemoryError as refusal:
        return {**row, "refused": str(refusal).splitlines()[0]}
    times = steps_for(f, arguments, seconds)
    forget_high_water()
    f(*arguments)
    after = snug.process_memory()
    return {
        **row,
        "planned": plan.arena,
        "mapped": after.arenas,
        "peak": plan.peak,
        "high_water": after.high_water,
        "besides": after.not_planned,
        "predicted": plan.seconds,
        "measured": statistics.median(times),
        "recomputed": len(plan.recomputed),
        "slices": plan.micro_batches,
        "offloaded": plan.offloaded,
    }


if __name__ == "__main__":
    model, count, memory, duration = sys.argv[1:]
    print(json.dumps(measure(model, int(count), memory, float(duration))))
