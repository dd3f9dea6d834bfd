"""What the contestants of cells.py share: the commands."""

import time

import numpy as np
from cells_table import CELLS, pyhpc_call
from worker import answer, answer_commands, times_within


def digest(results):
    """A few numbers that tell whether contestants computed the same."""
    results = results if isinstance(results, (tuple, list)) else [results]
    return [float(np.abs(np.asarray(r, np.float64)).mean()) for r in results]


def serve(make, version, wait, pyhpc_files):
    """Answers commands:

    "cell NAME SIZE DTYPE"  makes it: the seconds of the first call and a digest of the results
    "run N"                 calls it N times: the mean seconds of a call
    "for S"                 calls it for S seconds: the seconds of each call

    `make(cell, arguments)` gives a function without arguments that returns when all is computed;
    `wait(results)` returns when the results of a pyhpc kernel are computed, of which the contestant
    runs the file for pyhpc_files[KERNEL].
    """
    call = None

    def cell(name, size, dtype):
        nonlocal call
        call = None
        cell = CELLS[name]
        start = time.perf_counter()
        if cell.pyhpc:
            kernel = pyhpc_call(cell, int(size), pyhpc_files[cell.pyhpc])
            call = lambda: wait(kernel())
        else:
            call = make(cell, cell.arguments(int(size), dtype))
        results = call()
        first = time.perf_counter() - start
        return {"first": first, "digest": digest(results)}

    def run(count):
        start = time.perf_counter()
        for _ in range(int(count)):
            call()
        return {"seconds": (time.perf_counter() - start) / int(count)}

    def run_for(seconds):
        return {"seconds": times_within(float(seconds), call)}

    answer(version=version)
    answer_commands({"cell": cell, "run": run, "for": run_for})
