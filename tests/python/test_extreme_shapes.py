"""Every row on shapes at the ends: about 2^31 elements, planned and never allocated, and axes
without elements, executed."""

import pathlib
import sys

import numpy as np
import pytest

import snug

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))

from row_examples import ROWS, Maker, example_of, takes

# ---- huge

# Rows whose examples have other needs than sizes: square matrices, filters smaller than images.
SQUARE = {"cholesky", "det", "eigvalsh", "expm", "inverse", "slogdet", "solve"}
# LAPACK counts the work of these in 32 bits.
LIMITED = {
    **dict.fromkeys(("eig", "eigh"), (23000, 23000)),
    **dict.fromkeys(("lstsq", "svd"), (2**17 + 1, 2**14)),
}
HUGE = {
    0: (),
    1: (2**31 + 5,),
    2: (2**16 + 1, 2**15),
    3: (2**11 + 1, 2**10, 2**10),
    4: (2**9 + 1, 2**2, 2**10, 2**10),
    5: (2**8 + 1, 2**2, 2**7, 2**7, 2**7),
}
# Inputs that would not fit the first one if they were as large.
SMALLER = {
    "batched_dot": {1: (2**11 + 1, 2**10, 3)},
    "conv2d": {1: (3, 4, 2, 2)},
    "conv2d_grad_input": {1: (3, 4, 2, 2)},
    "conv2d_grad_weight": {1: (3, 4, 2, 2)},
    "conv3d": {1: (3, 4, 2, 2, 2)},
    "conv3d_grad_input": {1: (3, 4, 2, 2, 2)},
    "conv3d_grad_weight": {1: (3, 4, 2, 2, 2)},
    "dot": {1: (2**15, 3)},
    "gather": {1: (2**31 // 2**15,)},
    "loop": {1: (2**15,)},
    "scatter_add": {1: (7,), 2: (7, 2**15)},
    "scatter_set": {1: (7,), 2: (7, 2**15)},
    "slice_inc": {1: (2**15,)},
    "slice_set": {1: (2**15,)},
    "solve": {1: (46341, 3)},
}


def example(row):
    dtype = next(d for d in ("float64", "float32", "int64", "bool") if takes(row, d))
    maker = Maker(dtype)
    output = example_of(row)(maker)
    return maker.inputs, output


def bytes_of(shape, x):
    return int(np.prod(shape, dtype=object)) * x.type.numpy_dtype.itemsize


@pytest.mark.parametrize("row", sorted(ROWS))
def test_huge_shapes_are_planned(row):
    inputs, output = example(row)
    shapes = []
    for k, x in enumerate(inputs):
        shape = (46341, 46341) if row in SQUARE else LIMITED.get(row, HUGE[x.ndim])
        shapes.append(SMALLER.get(row, {}).get(k, shape))
    f = snug.function(inputs, output, on_unused_input="ignore")
    report = f.memory(*shapes)
    assert report.inputs == sum(bytes_of(s, x) for s, x in zip(shapes, inputs))
    assert 0 <= report.outputs <= 2**50 and 0 <= report.arena <= 2**50
    assert report.peak >= report.outputs
    if "elementwise" in ROWS[row]["traits"]:
        assert report.outputs == bytes_of(shapes[0], output)


@pytest.mark.parametrize("row", sorted(LIMITED))
def test_what_is_too_large_for_the_library_is_refused(row):
    inputs, output = example(row)
    f = snug.function(inputs, output)
    with pytest.raises(NotImplementedError, match="too large for LAPACK"):
        f.memory(*[(23001, 23001)] * len(inputs))


# ---- empty


def outcome(f, arguments):
    try:
        return f(*arguments)
    except (ValueError, IndexError, TypeError) as refused:
        return type(refused)


EMPTY = [(0, 0, 0, 0, 0), (0, 3, 2, 2, 2), (3, 0, 2, 2, 2)]


@pytest.mark.parametrize("row", sorted(ROWS))
def test_empty_axes(row):
    """Results without elements, sums of nothing, or an error: the same in every mode."""
    random = "random" in ROWS[row]["traits"]
    inputs, output = example(row)
    modes = {
        m: snug.function(inputs, output, mode=m, on_unused_input="ignore")
        for m in ("fast", "reference", "check")
    }
    ran = 0
    for sizes in EMPTY:
        arguments = [np.zeros(sizes[: x.ndim], x.type.numpy_dtype) for x in inputs]
        found = {mode: outcome(f, arguments) for mode, f in modes.items()}
        fast = found["fast"]
        for mode, other in found.items():
            if isinstance(fast, type) or isinstance(other, type):
                assert fast is other, f"{sizes}: fast {fast}, {mode} {other}"
            else:
                assert fast.shape == other.shape and fast.dtype == other.dtype
                if not random:
                    np.testing.assert_array_equal(fast, other)
                ran += 1
    assert ran or row in REFUSED, f"{row}: no empty shape is taken"


# Rows whose examples have no result for any empty shape.
REFUSED = {
    "argmax": "there is no first place among no elements",
    "argmin": "there is no first place among no elements",
    "max": "there is no largest element among none",
    "min": "there is no smallest element among none",
}
