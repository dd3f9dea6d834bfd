"""x[...] as NumPy has it: every form of index, read, replaced, increased, and their gradients."""

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import DTYPES, sample, variable

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SHAPES = [(5,), (4, 3), (1, 4), (3, 1, 2), (2, 3, 4), (2, 0, 3), (2, 3, 2, 3)]


def random_slice(rng, size):
    def bound():
        return None if rng.random() < 0.35 else int(rng.integers(-size - 2, size + 3))

    step = None if rng.random() < 0.4 else int(rng.choice([-3, -2, -1, 1, 2, 3]))
    return slice(bound(), bound(), step)


def random_index(rng, shape):
    """A random index of an array of this shape, in NumPy's terms. Index arrays stretch together."""
    wanted = rng.permutation(2)[0]  # whether it has index arrays
    common = tuple(rng.integers(1, 4, rng.integers(1, 3)))  # the shape of the index arrays
    items, axis, ellipsis = [], 0, False
    # A mask picks as many elements as the common shape's last axis has: how many it picks is not
    # known before the call, so its places do not stretch.
    masked = None
    while axis < len(shape):
        size = shape[axis]
        kind = rng.choice(["slice", "single", "array", "mask", "none", "ellipsis", "stop"])
        if kind == "stop" and axis > 0:
            break
        if kind == "none" and len(items) < 6:
            items.append(None)
        elif kind == "ellipsis" and not ellipsis:
            ellipsis = True
            items.append(Ellipsis)
            axis += int(rng.integers(0, len(shape) - axis + 1))
        elif kind == "single" and size > 0:
            items.append(int(rng.integers(-size, size)))
            axis += 1
        elif kind == "array" and wanted and size > 0:
            some = tuple(common[int(rng.integers(0, len(common))) :])
            items.append(rng.integers(-size, size, some))
            axis += 1
        elif kind == "mask" and wanted and masked is None:
            width = int(rng.integers(1, len(shape) - axis + 1))
            mask = rng.random(shape[axis : axis + width]) < 0.5
            count = int(mask.sum())
            if count != common[-1]:
                continue
            masked = mask
            items.append(mask)
            axis += width
        else:
            items.append(random_slice(rng, size))
            axis += 1
    return tuple(items)


def has_repeats(index, shape):
    """Whether an element is named twice, so that its last value counts."""
    numbers = np.arange(int(np.prod(shape))).reshape(shape)[index]
    return len(np.unique(numbers)) != numbers.size


def symbolic(index):
    """The index with a variable for every integer, bound, array and mask; and their values."""
    inputs, values = [], []

    def scalar(value):
        x = T.lscalar()
        inputs.append(x)
        values.append(value)
        return x

    def part(item):
        if isinstance(item, slice):
            return slice(
                *(b if b is None else scalar(b) for b in (item.start, item.stop, item.step))
            )
        if isinstance(item, np.ndarray):
            # An axis of size 1 stretches, so its type must say so.
            x = variable(str(item.dtype), item.ndim, None, tuple(n == 1 for n in item.shape))
            if item.dtype == bool:
                x = variable("bool", item.ndim)
            inputs.append(x)
            values.append(item)
            return x
        return item if item is None or item is Ellipsis else scalar(item)

    return tuple(part(item) for item in index), inputs, values


def check(a, index, key, inputs, values, mode="fast"):
    x = variable(str(a.dtype), a.ndim, "x")
    want = a[index]
    y = variable(str(a.dtype), want.ndim, "y")
    b = sample(str(a.dtype), want.shape, special=False, key=7)
    part = x[key]
    outputs = [part, T.set_subtensor(part, y), T.inc_subtensor(part, y), T.set_subtensor(part, 3)]
    f = snug.function([x, y, *inputs], outputs, mode=mode, on_unused_input="ignore")
    got = f(a, b, *values)
    np.testing.assert_array_equal(got[0], want)
    replaced, increased, filled = a.copy(), a.copy(), a.copy()
    replaced[index] = b
    filled[index] = 3
    np.add.at(increased, index, b)
    if not has_repeats(index, a.shape):  # NumPy leaves open which of several values stays
        np.testing.assert_array_equal(got[1], replaced)
    np.testing.assert_allclose(got[2], increased, rtol=1e-6)
    np.testing.assert_array_equal(got[3], filled)
    return x, y, b, part


def check_gradients(a, index, x, y, b, part, inputs, values):
    weights = np.cos(np.arange(part_size := int(np.prod(a[index].shape)))).reshape(a[index].shape)
    assert part_size == b.size
    whole = np.sin(np.arange(a.size)).reshape(a.shape)
    w, v = variable("float64", b.ndim, "w"), variable("float64", a.ndim, "v")
    costs = [(part * w).sum()]
    costs += [(f(part, y) * v).sum() for f in (T.set_subtensor, T.inc_subtensor)]
    gradients = [T.grad(costs[0], x)]
    for cost in costs[1:]:
        gradients += T.grad(cost, [x, y])
    f = snug.function([x, y, w, v, *inputs], gradients, on_unused_input="ignore")
    got = f(a, b, weights, whole, *values)
    read = np.zeros(a.shape)
    np.add.at(read, index, weights)
    np.testing.assert_allclose(got[0], read, rtol=1e-6)
    kept = whole.copy()
    kept[index] = 0
    np.testing.assert_allclose(got[1], kept, rtol=1e-6)
    if not has_repeats(index, a.shape):
        np.testing.assert_allclose(got[2], whole[index], rtol=1e-6)
    np.testing.assert_allclose(got[3], whole, rtol=1e-6)
    np.testing.assert_allclose(got[4], whole[index], rtol=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_random_indices(shape, seed):
    rng = np.random.default_rng([seed, len(shape), *shape])
    for k in range(6):
        index = random_index(rng, shape)
        try:
            a = np.zeros(shape)[index]
        except IndexError:  # arrays that do not stretch together
            continue
        if a.ndim > 6:
            continue
        a = sample("float64", shape, special=False, key=k)
        try:
            parts = check(a, index, index, [], [])
            check_gradients(a, index, *parts, [], [])
            check(a, index, index, [], [], mode="reference")
            key, inputs, values = symbolic(index)
            parts = check(a, index, key, inputs, values)
            check_gradients(a, index, *parts, inputs, values)
        except Exception as problem:
            raise AssertionError(f"index {index} of shape {shape}") from problem


GRID, J = np.array([[1, 0], [2, -1]]), np.array([0, -2])
MASK = np.array([True, False, True])
FORMS = {  # of an array of shape (3, 4, 2)
    "whole": (Ellipsis,),
    "nothing": (),
    "new axes": (None, slice(None), None, 1),
    "ellipsis in the middle": (0, Ellipsis, 1),
    "ellipsis for nothing": (0, 1, Ellipsis, 1),
    "negative steps": (slice(None, None, -1), slice(3, 0, -2), slice(-1, None, -1)),
    "bounds outside": (slice(-100, 100), slice(100, -100, -1)),
    "empty": (slice(2, 1), slice(None), 0),
    "list": ([0, 2, 2],),
    "list of lists": ([[0, 1], [2, 0]],),
    "empty list": ([],),
    "two lists": ([0, 1], [2, 3]),
    "array": (GRID,),
    "array behind": (slice(None), J),
    "arrays stretch": (GRID, J),
    "arrays and a number": (0, GRID),
    "number between arrays": (J, 1, J % 2),
    "separated by a slice": (J, slice(None), [0, 1]),
    "separated by a number": (1, slice(1, 3), [0, 1]),
    "separated by a new axis": (J, None, [2, 3]),
    "separated by an ellipsis": (J, Ellipsis, [1, 0]),
    "slices and an array": (slice(None, None, -1), J, slice(0, 1)),
    "mask of one axis": (MASK,),
    "mask and slice": (MASK, slice(1, None, 2)),
    "mask behind": (slice(None), np.array([True, False, True, True])),
    "mask of two axes": (np.arange(12).reshape(3, 4) % 3 == 0,),
    "mask of all axes": (np.arange(24).reshape(3, 4, 2) % 5 == 1,),
    "mask of nothing": (np.zeros((3, 4), bool),),
    "mask and array": (MASK, [1, 2]),
    "mask, slice and array": (MASK, slice(None), [1, 0]),
    "mask and new axis": (None, MASK, None),
    "list of bools": ([True, False, True],),
    "true": (True,),
    "false": (False,),
    "true and a number": (True, 1),
    "true and an array": (True, J),
    "false in the middle": (0, False, slice(1, 3)),
    "true behind a slice": (slice(None), True),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    index = FORMS[form]
    a = sample("float64", (3, 4, 2), special=False)
    key = index[0] if len(index) == 1 else index
    parts = check(a, index, key, [], [])
    check_gradients(a, index, *parts, [], [])


def test_a_list_that_holds_a_slice_is_a_tuple():
    a = sample("float64", (3, 4), special=False)
    x = T.dmatrix()
    f = snug.function([x], [x[[slice(1, 3), slice(None, None, 2)]], x[[slice(0, 2), 1]]])
    got = f(a)
    np.testing.assert_array_equal(got[0], a[1:3, ::2])
    np.testing.assert_array_equal(got[1], a[0:2, 1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype):
    a = sample(dtype, (4, 5))
    b = sample(dtype, (2, 5), key=1)
    x, y = variable(dtype, 2), variable(dtype, 2)
    outputs = [x[[1, -1]], x[::-2, 1:], T.set_subtensor(x[[1, -1]], y), T.set_subtensor(x[1:3], y)]
    want = [a[[1, -1]], a[::-2, 1:], a.copy(), a.copy()]
    want[2][[1, -1]] = b
    want[3][1:3] = b
    for got, value in zip(snug.function([x, y], outputs)(a, b), want):
        assert got.dtype == value.dtype
        np.testing.assert_array_equal(got.view("u1"), np.ascontiguousarray(value).view("u1"))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_dtypes_of_indices(dtype):
    x, i, k = T.dvector(), variable(dtype, 1), variable(dtype, 0)
    f = snug.function([x, i, k], [x[i], x[k], x[:k]])
    a, at = np.arange(6.0), np.array([5, 0, 3], dtype)
    for got, want in zip(f(a, at, np.array(2, dtype)), [a[at], a[2], a[:2]]):
        np.testing.assert_array_equal(got, want)


def test_repeated_indices():
    x, y, i = T.dvector(), T.dvector(), T.lvector()
    part = x[i]
    f = snug.function([x, y, i], [T.set_subtensor(part, y), T.inc_subtensor(part, y)])
    replaced, increased = f(np.zeros(3), np.array([1.0, 2, 3, 4]), [1, 0, 1, 1])
    np.testing.assert_array_equal(replaced, [2, 4, 0])
    np.testing.assert_array_equal(increased, [2, 8, 0])


def test_of_parts():
    """Indexing of what is indexed, read and written."""
    a = sample("float64", (4, 5, 3), special=False)
    x, y = T.dtensor3(), T.dmatrix()
    part = x[1:][:, ::-1]
    outputs = [
        part[0],
        part[[2, 0], 1],
        x[:, [3, 1]][1:, :, ::-1],
        T.set_subtensor(x[2], y)[1:, 1:],
    ]
    f = snug.function([x, y], outputs)
    b = sample("float64", (5, 3), special=False, key=1)
    changed = a.copy()
    changed[2] = b
    want = [
        a[1:][:, ::-1][0],
        a[1:][:, ::-1][[2, 0], 1],
        a[:, [3, 1]][1:, :, ::-1],
        changed[1:, 1:],
    ]
    for got, value in zip(f(a, b), want):
        np.testing.assert_array_equal(got, value)


def test_values_that_stretch():
    a = sample("float64", (3, 4), special=False)
    x, r, c, s = T.dmatrix(), T.drow(), T.dcol(), T.dscalar()
    row, column = np.arange(4.0)[None], np.arange(3.0)[:, None]
    for value, y, b in [(r, r, row), (c, c, column), (s, s, 5.0), (T.dvector("v"), None, row[0])]:
        y = value if y is None else y
        for index in [(Ellipsis,), (slice(None, None, -1),), ([2, 0, 1],)]:
            f = snug.function([x, y], [T.set_subtensor(x[index], y), T.inc_subtensor(x[index], y)])
            want = [a.copy(), a.copy()]
            want[0][index] = b
            want[1][index] += b
            for got, w in zip(f(a, b), want):
                np.testing.assert_allclose(got, w)
            cost = (T.set_subtensor(x[index], y) ** 2).sum()
            g = snug.function([x, y], T.grad(cost, y))(a, b)
            np.testing.assert_allclose(g, 2 * b * (a.size / np.size(b)))


OUTSIDE = {
    "number": (5, "5 is outside axis 0 of size 3"),
    "negative": (-4, "-4 is outside axis 0 of size 3"),
    "array": ([0, 3], "3 is outside an axis of size 3"),
    "second": ((0, 4), "4 is outside axis 1 of size 4"),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_outside(case):
    index, text = OUTSIDE[case]
    x, i = T.dmatrix(), None
    with pytest.raises(IndexError, match=text):
        snug.function([x], x[index])(np.zeros((3, 4)))
    if not isinstance(index, tuple):
        i = variable("int64", np.ndim(index))
        for y in (x[i], T.set_subtensor(x[i], 1), T.inc_subtensor(x[i], 1)):
            with pytest.raises(IndexError, match="outside"):
                snug.function([x, i], y)(np.zeros((3, 4)), index)


@pytest.mark.parametrize(
    "index",
    [(0, 0, 0), (Ellipsis, 0, Ellipsis), 1.5, "a", (slice(1.5),), (np.zeros((3, 4, 1), bool),)],
    ids=str,
)
def test_refused(index):
    with pytest.raises((IndexError, TypeError)):
        T.dmatrix()[index]


def test_mask_of_another_shape():
    x, m = T.dmatrix(), variable("bool", 1)
    f = snug.function([x, m], x[m])
    with pytest.raises(ValueError, match="mask"):
        f(np.zeros((3, 4)), np.ones(4, bool))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int64", "uint8", "bool"])
def test_rows_of_any_length(dtype):
    """Rows are moved and added by code that their length chooses."""
    random = np.random.default_rng(7)
    x, y = (T.TensorType(dtype, (False, False))() for _ in range(2))
    i = T.lvector()
    f = snug.function(
        [x, y, i],
        [x[i], T.set_subtensor(x[i], y), T.inc_subtensor(x[i], y)],
        on_unused_input="ignore",
    )
    for length in [*range(71), 129, 300, 1100]:
        table = random.integers(0, 2 if dtype == "bool" else 100, (23, length)).astype(dtype)
        index = random.integers(-23, 23, 600)
        rows = random.integers(0, 2 if dtype == "bool" else 100, (600, length)).astype(dtype)
        for step in 1, 2, -1:
            part = index[: 300 * abs(step)][::step]
            given = rows[: len(part)]
            taken, set_, added = f(table, given, part)
            assert np.array_equal(taken, table[part])
            wanted = table.copy()
            for row, place in zip(given, part, strict=True):
                wanted[place] = row
            assert np.array_equal(set_, wanted)
            wanted = table.copy()
            np.add.at(wanted, part, given)
            assert np.array_equal(added, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_strided_tables(dtype):
    random = np.random.default_rng(8)
    x, i = T.TensorType(dtype, (False, False))(), T.lvector()
    y = T.TensorType(dtype, (False, False))()
    functions = {
        "rows": snug.function([x, i], x[i]),
        "columns": snug.function([x, i], x[:, i]),
        "every second": snug.function([x, i], x[:, ::2][i]),
        "backwards": snug.function([x, i], x[::-1, ::-1][i]),
        "pairs": snug.function([x, i], x[i, i[::-1]]),
    }
    wanted = {
        "rows": lambda x, i: x[i],
        "columns": lambda x, i: x[:, i],
        "every second": lambda x, i: x[:, ::2][i],
        "backwards": lambda x, i: x[::-1, ::-1][i],
        "pairs": lambda x, i: x[i, i[::-1]],
    }
    add = snug.function([x, y, i], T.inc_subtensor(x[:, i], y))
    for count in 0, 1, 17, 700:
        table = random.standard_normal((40, 80)).astype(dtype)
        index = random.integers(-30, 30, count)
        for view in table[:, :40], table[:, ::2], table.T[:40], table[::-1, 40:]:
            for name, function in functions.items():
                assert np.array_equal(function(view, index), wanted[name](view, index)), name
            rows = random.integers(0, 9, (len(view), count)).astype(dtype)
            sum_ = view.copy()
            np.add.at(sum_.T, index, rows.T)
            np.testing.assert_allclose(add(view, rows, index), sum_, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32", "uint64"])
def test_the_first_index_outside_is_named(dtype):
    x, i = T.fmatrix(), T.TensorType(dtype, (False, False))()
    f = snug.function([x, i], x[i])
    table = np.arange(200, dtype="float32").reshape(100, 2)
    index = np.arange(2000).reshape(40, 50).astype(np.int64) % 100
    for view in index.astype(dtype), index.astype(dtype)[::-1, ::2], index.astype(dtype).T:
        assert np.array_equal(f(table, view), table[view])
        for places in [(0, 0)], [(39 % len(view), 20)], [(7, 3), (7, 4), (9, 0)]:
            wrong = view.copy()
            for n, place in enumerate(places):
                wrong[place] = 100 + n
            with pytest.raises(IndexError, match="index 100 is outside an axis of size 100"):
                f(table, wrong)
    with pytest.raises(IndexError, match="index 0 is outside an axis of size 0"):
        f(table[:0], index.astype(dtype) * 0)
    if dtype == "uint64":
        with pytest.raises(IndexError, match="outside an axis of size 100"):
            f(table, np.full((2, 2), 2**64 - 1, dtype))
    if dtype.startswith("int"):
        assert np.array_equal(f(table, (-1 - index).astype(dtype)), table[-1 - index])
        with pytest.raises(IndexError, match="index -101 is outside an axis of size 100"):
            f(table, np.full((3, 3), -101, dtype))


def test_many_threads_add_rows_in_the_order_of_indices():
    """Sums depend on the order of their terms, which is that of the indices on any threads."""
    random = np.random.default_rng(9)
    x, y, i = T.fmatrix(), T.fmatrix(), T.lvector()
    f = snug.function([x, y, i], T.inc_subtensor(x[i], y))
    for rows, columns, count in (5, 3, 20000), (3000, 8, 20000), (50, 64, 3000), (4, 200, 999):
        table = random.standard_normal((rows, columns)).astype("float32")
        given = random.standard_normal((count, columns)).astype("float32")
        index = np.minimum(random.geometric(0.05, count) - 1, rows - 1)
        wanted = table.copy()
        for row, place in zip(given, index, strict=True):
            wanted[place] += row
        assert np.array_equal(f(table, given, index), wanted)
