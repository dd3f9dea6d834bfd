"""Seconds to the answer for every built-in model, on a machine without anything kept and with it.

    .venv/bin/python benchmarks/time_to_answer.py [MODEL ...] [--markdown]

Every figure is of a process of its own. *cold* has an empty folder for what is kept (code of
kernels, rates of the machine), *warm* the one that the cold process left.

    plan       `snug plan MODEL`, the whole command
    budget     `snug plan MODEL --memory` 0.8 of its peak; cold it measures rates, too
    compile    `snug.function` of a training step (forward, gradients, momentum)
    call       its first call, which makes the code
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from predicted_time import SIZES

SNUG = os.path.join(os.path.dirname(sys.executable), "snug")


def run(arguments, folder):
    """Seconds of a command with `folder` for what is kept, and what it printed."""
    start = time.perf_counter()
    done = subprocess.run(
        arguments, capture_output=True, text=True, env={**os.environ, "SNUG_CACHE_DIR": folder}
    )
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1):  # 1: it does not fit
        raise RuntimeError(f"{arguments}: {done.stderr}")
    return seconds, done.stdout


def twice(arguments):
    """Cold and warm seconds, and the output."""
    with tempfile.TemporaryDirectory() as folder:
        cold, out = run(arguments, folder)
        warm, _ = run(arguments, folder)
    return cold, warm, out


def step_of(name):
    """In a process of its own: seconds to make a training step, and of its first call."""
    from predicted_time import make_step

    start = time.perf_counter()
    step, values, _ = make_step(name)
    made = time.perf_counter()
    step(*values)
    print(json.dumps([made - start, time.perf_counter() - made]))


def figures(name):
    plan = twice([SNUG, "plan", name, "--json"])
    peak = json.loads(plan[2])["bytes"]["peak"]
    budget = twice([SNUG, "plan", name, "--memory", str(int(0.8 * peak)), "--json"])
    with tempfile.TemporaryDirectory() as folder:
        arguments = [sys.executable, __file__, "--step", name]
        cold, warm = (json.loads(run(arguments, folder)[1]) for _ in range(2))
    return [plan[0], plan[1], budget[0], budget[1], cold[0], warm[0], cold[1], warm[1]]


HEADINGS = [
    "plan cold", "plan warm", "budget cold", "budget warm",
    "compile cold", "compile warm", "call cold", "call warm",
]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=sorted(SIZES))
    parser.add_argument("--markdown", action="store_true", help="a table for a README")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        return step_of(options.step)
    cold, warm, _ = twice([SNUG, "info"])
    print(f"measuring the rates of the machine: {cold - warm:.1f} s\n")
    line = ("| " + " | ".join(["{}"] * 9) + " |") if options.markdown else "{:<12}" + "{:>13}" * 8
    print(line.format("model", *HEADINGS))
    if options.markdown:
        print(line.format(*["---"] * 9))
    for name in options.models:
        print(line.format(name, *(f"{s:.2f}" for s in figures(name))), flush=True)


if __name__ == "__main__":
    main()
