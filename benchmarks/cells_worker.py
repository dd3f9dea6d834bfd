"""What the contestants of cells.py share: the loop over commands."""

import json
import os
import sys
import time

import numpy as np
from cells_table import CELLS, pyhpc_call
from convnets_worker import times_within


def answer(**values):
    print(json.dumps(values), flush=True)


def digest(results):
    """A few numbers that tell whether contestants computed the same."""
    results = results if isinstance(results, (tuple, list)) else [results]
    return [float(np.abs(np.asarray(r, np.float64)).mean()) for r in results]


def serve(make, version, backend):
    """Answers, one line of JSON per command:

    "cell NAME SIZE DTYPE"  makes it: the seconds of the first call and a digest of the results
    "run N"                 calls it N times: the mean seconds of a call
    "for S"                 calls it for S seconds: the seconds of each call
    "end"                   ends the process

    `make(cell, arguments)` gives a function without arguments that returns when all is computed;
    `backend` is the contestant's name among the pyhpc kernels, with what waits for its results.
    """
    answer(version=version)
    call = None
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "end":
            break
        try:
            if command == "cell":
                call = None
                name, size, dtype = rest
                cell = CELLS[name]
                start = time.perf_counter()
                if cell.pyhpc:
                    kernel = pyhpc_call(cell, int(size), backend[0])
                    call = lambda kernel=kernel: backend[1](kernel())
                else:
                    call = make(cell, cell.arguments(int(size), dtype))
                results = call()
                first = time.perf_counter() - start
                answer(first=first, digest=digest(results))
                results = None
            elif command == "for":
                answer(seconds=times_within(float(rest[0]), call))
            else:
                count = int(rest[0])
                start = time.perf_counter()
                for _ in range(count):
                    call()
                answer(seconds=(time.perf_counter() - start) / count)
        except Exception as fault:
            call = None
            answer(fault=f"{type(fault).__name__}: {fault}"[:300])
    os._exit(0)
