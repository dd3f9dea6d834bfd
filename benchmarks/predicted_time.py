"""The predicted time of a training step beside the measured one, per model.

    .venv/bin/python benchmarks/predicted_time.py [MODEL ...] [--tasks N] [--seconds S]

A step is forward, gradients and momentum. The measured time is that of the fastest of many calls;
--tasks shows the steps of the function whose prediction is furthest off, each by its fastest run.
"""

import argparse
import json
import time

import numpy as np

import snug
import snug.tensor as T
from snug import nn, optim

# Batches, and shapes of examples, that a small machine trains on in a second or so.
SIZES = {
    "autoencoder": (128, (1, 28, 28)),
    "fcn8": (1, (3, 192, 256)),
    "lenet": (64, (1, 28, 28)),
    "logistic": (256, (1, 28, 28)),
    "lstm": (64, (28, 28)),
    "mlp": (128, (1, 28, 28)),
    "mobilenet": (8, (3, 224, 224)),
    "resnet50": (4, (3, 224, 224)),
    "segnet": (1, (3, 192, 256)),
    "transformer": (1, (128, 768)),
    "unet": (1, (1, 256, 256)),
    "vgg-small": (64, (1, 28, 28)),
    "vgg16": (2, (3, 224, 224)),
    "vgg19": (2, (3, 224, 224)),
}


def make_step(name):
    """A training step of a model, made with a profile, and arguments for it."""
    batch, shape = SIZES[name]
    model = nn.make_model(name, input=shape)
    random = np.random.default_rng(1)
    x = T.TensorType("float32", (False,) * (1 + len(shape)))("x")
    examples = random.random((batch, *shape), dtype=np.float32)
    scores = model(x, training=True)
    if name == "autoencoder":
        loss, variables, values = nn.binary_cross_entropy(scores, x.flatten(2)), [x], [examples]
    else:
        y = T.TensorType("int64", (False,) * (scores.ndim - 1))("y")
        if scores.ndim == 4:
            scores = scores.dimshuffle(0, 2, 3, 1)
        loss, variables = nn.cross_entropy(scores, y), [x, y]
        labels = random.integers(0, 2, (batch, *(shape[1:] if y.ndim == 3 else ())))
        values = [examples, labels]
    updates = optim.momentum(loss, model.parameters(), 1e-3, momentum=0.9)
    step = snug.function(variables, loss, updates=updates, profile=True, name=name)
    return step, values, batch


def times_of(step):
    """Seconds of every kind of step so far, and the prediction of one call."""
    profile = step.profile
    calls = profile.fct_callcount
    return {
        (s.name, s.result, s.where): (s.seconds, s.predicted / calls, s.count // calls)
        for s in profile.steps
    }


def measure(name, seconds):
    """One row: times of the whole step, and (predicted, measured, count, what) of its parts."""
    step, values, batch = make_step(name)
    step(*values)
    before = times_of(step)
    best = float("inf")
    parts = dict.fromkeys(before, float("inf"))
    end = time.perf_counter() + seconds
    calls = 0
    while calls < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        step(*values)
        best = min(best, time.perf_counter() - start)
        now = times_of(step)
        for key in parts:
            parts[key] = min(parts[key], now[key][0] - before[key][0])
        before, calls = now, calls + 1
    rows = [(before[key][1], parts[key], before[key][2], key) for key in parts]
    return {"batch": batch, "predicted": sum(r[0] for r in rows), "measured": best}, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=[], help="all if none is given")
    parser.add_argument("--tasks", type=int, default=0, help="how many of the worst tasks to show")
    parser.add_argument("--seconds", type=float, default=2, help="of measuring per model")
    parser.add_argument("--json", help="a file for the table")
    arguments = parser.parse_args()
    snug.config.floatX = "float32"
    snug.max_batch(_any_function(), x=(1,), memory="1GiB")  # measures the machine if nobody has
    print(f"{'model':<14} {'batch':>5} {'predicted':>12} {'measured':>12} {'ratio':>6}")
    table, worst = {}, []
    for name in arguments.models or [n for n in SIZES if n in nn.model_names()]:
        row, parts = measure(name, arguments.seconds)
        row["ratio"] = row["predicted"] / row["measured"]
        table[name] = row
        worst.append(max(row["ratio"], 1 / row["ratio"]))
        print(
            f"{name:<14} {row['batch']:>5} {1e3 * row['predicted']:>9.3f} ms"
            f" {1e3 * row['measured']:>9.3f} ms {row['ratio']:>6.2f}"
        )
        parts.sort(key=lambda p: -abs(p[0] - p[1]))
        for predicted, measured, count, (what, result, where) in parts[: arguments.tasks]:
            print(
                f"    {1e6 * predicted:>10.1f} us {1e6 * measured:>10.1f} us"
                f" {predicted / max(measured, 1e-9):>6.2f}  {count:>3} x {what}  {result}  {where}"
            )
    print(f"within 30 %: {sum(w <= 1.3 for w in worst)} of {len(worst)}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(table, file, indent=1)


def _any_function():
    x = T.fvector("x")
    return snug.function([x], x + 1, plan_only=True)


if __name__ == "__main__":
    main()
