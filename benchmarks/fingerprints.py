"""What the plans of the models are: for telling whether a change of the compiler changed one.

    .venv/bin/python benchmarks/fingerprints.py [MODEL ...]

Per training step of memory.py, with its budgets: the bytes of the arena and a fingerprint of steps,
buffers and offsets. Budgets are met by predicted times, so those rows are equal only with equal
rates: on one machine, which keeps them.
"""

import sys

from memory import EXACTNESS
from memory_step import Training, bytes_of


def main():
    chosen = sys.argv[1:]
    for model, batch, budgets in EXACTNESS:
        if chosen and model not in chosen:
            continue
        training = Training(model)
        plain = training.plan(batch)
        for text in budgets:
            if "," in text:  # met by a file
                continue
            budget = bytes_of(text, plain)
            plan = training.plan(batch, budget) if budget else plain
            found = f"{plan.arena:>14} {plan.fingerprint}" if plan else "no plan"
            print(f"{model:12}{batch:>6}{text:>6} {found}", flush=True)


if __name__ == "__main__":
    main()
