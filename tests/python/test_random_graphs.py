"""Random typed programs: NumPy, the reference interpreter and the compiled function must agree,
also with one rewrite pass left out, and so must the gradients of every fourth one. A failing
program is printed as a list of steps; rerun it with SNUG_GRAPH_SEED. The steps are those of
random_programs.py, one for every row of the op table."""

import contextlib
import os

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import ops_of
from random_programs import NO_STEP, ROWS, STEPS, Program

COUNT = int(os.environ.get("SNUG_GRAPHS", "10000" if os.environ.get("SNUG_LONG") else "2000"))
BATCHES = 40
PASSES = ["canonicalize", "fold_constants", "stabilize", "simplify", "lift_shapes"]


def tolerance(program):
    """What rounding may do: as much as the least precise float type of the program does."""
    return 2e-4 if any(item.v.dtype.name in FEW_BITS for item in program.items) else 1e-9


FEW_BITS = ("float16", "float32", "complex64")


def compare(name, got, want, reference, rtol):
    assert got.dtype == reference.dtype, f"{name}: {got.dtype} and {reference.dtype}"
    assert got.shape == want.shape, f"{name}: {got.shape} and {want.shape}"
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, reference, err_msg=name)
        np.testing.assert_array_equal(got, want, err_msg=name)
        return
    finite = np.abs(reference[np.isfinite(reference)])
    scale = max(1.0, float(finite.max()) if finite.size else 1.0)
    np.testing.assert_allclose(got, reference, rtol=rtol, atol=rtol * scale, err_msg=name)
    np.testing.assert_allclose(got, want, rtol=10 * rtol, atol=10 * rtol * scale, err_msg=name)


def function(program, outputs, **options):
    return snug.function(program.inputs, outputs, on_unused_input="ignore", **options)


@contextlib.contextmanager
def told(program, seed):
    """An error comes with the program."""
    try:
        yield
    except Exception as error:
        steps = "\n".join(program.log)
        raise AssertionError(
            f"SNUG_GRAPH_SEED={seed}\n{steps}\n{type(error).__name__}: {error}"
        ) from error


def check(program, outputs, seed):
    """Compiles the items `outputs` of a program in several ways and compares."""
    expressions = [item.x for item in outputs]
    with told(program, seed):
        reference = function(program, expressions, mode="reference")(*program.values)
        left_out = str(program.rng.choice(PASSES))
        for name, extra in [
            ("compiled", {}),
            (f"without {left_out}", {"disabled_passes": [left_out]}),
        ]:
            got = function(program, expressions, **extra)(*program.values)
            for k, item in enumerate(outputs):
                compare(f"{name}, output {k}", got[k], item.v, reference[k], tolerance(program))


def check_gradients(program, item, seed):
    """The gradient of an item by the float inputs, compiled and by the reference interpreter."""
    wrt = [x for x in program.inputs if x.dtype.startswith("float")]
    cost = T.sum(T.tanh(T.cast(item.x, "float64")))
    with told(program, seed):
        gradients = T.grad(cost, wrt, disconnected_inputs="ignore")
        reference = function(program, gradients, mode="reference")(*program.values)
        got = function(program, gradients)(*program.values)
        for x, a, b in zip(wrt, got, reference):
            compare(f"gradient by {x}", a, b, b, 10 * tolerance(program))


def run_one(seed):
    program = Program(seed)
    another = program.items[program.rng.integers(0, len(program.items))]
    check(program, [program.items[-1], another], seed)
    computed = [item for item in program.items[len(program.inputs) :] if item.v.dtype.kind == "f"]
    if seed % 4 == 0 and computed:
        check_gradients(program, computed[-1], seed)


if "SNUG_GRAPH_SEED" in os.environ:

    def test_one_graph():
        run_one(int(os.environ["SNUG_GRAPH_SEED"]))

else:

    @pytest.mark.parametrize("batch", range(BATCHES))
    def test_random_graphs(batch):
        share = COUNT // BATCHES
        for seed in range(batch * share, (batch + 1) * share):
            run_one(seed)


def test_every_row_has_a_step():
    missing = ROWS.keys() - STEPS.keys() - NO_STEP.keys()
    assert not missing, f"no step in random_programs.py: {', '.join(sorted(missing))}"
    assert not NO_STEP.keys() & STEPS.keys()
    assert STEPS.keys() | NO_STEP.keys() <= ROWS.keys()


@pytest.mark.parametrize("row", sorted(STEPS))
def test_step(row):
    """A step makes its row: on inputs of its own, in three programs of different sizes."""
    made = 0
    for seed in range(200):
        program = Program(seed, ["input", "input", row])
        item = program.items[-1]
        leaf = row in ("input", "constant", "shared")
        if not leaf and row not in ops_of([item.x]):
            continue
        check(program, [item], seed)
        made += 1
        if made == 3:
            return
    raise AssertionError(f"{row}: only {made} of 200 programs have it")
