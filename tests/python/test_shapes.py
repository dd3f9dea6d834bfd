"""Functions that arrange, join, pick and make tensors, against NumPy."""

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import agree_gradient, ops_of, sample, variable

A = sample("float64", (3, 4), special=False)
B = sample("float64", (2, 3, 4), special=False, key=1)
V = sample("float64", (5,), special=False, key=2)


def check(inputs, outputs, values, want, gradient=True):
    """Values in the compiled function and in the reference; gradients against differences."""
    for mode in ("fast", "reference"):
        got = snug.function(inputs, outputs, mode=mode, on_unused_input="ignore")(*values)
        for k, (g, w) in enumerate(zip(got, want)):
            assert g.shape == np.shape(w), f"output {k} in mode {mode}"
            np.testing.assert_allclose(g, w, rtol=1e-12, err_msg=f"output {k} in mode {mode}")
    if gradient:
        agree_gradient(next(iter(ops_of(outputs))), outputs, inputs, values)


# ---- axes


def test_axes():
    x = variable("float64", 3, "x")
    c = variable("float64", 3, "c", (False, True, False))
    outputs = [
        T.moveaxis(x, 0, -1),
        T.moveaxis(x, [0, 2], [2, 0]),
        T.moveaxis(x, (0, 1), (-1, -2)),
        T.rollaxis(x, 2),
        T.rollaxis(x, 0, 3),
        T.swapaxes(x, 0, 2),
        T.squeeze(c),
        c.squeeze(1),
        T.squeeze(c, (-2,)),
    ]
    b = B[:, :1]
    want = [
        np.moveaxis(B, 0, -1),
        np.moveaxis(B, [0, 2], [2, 0]),
        np.moveaxis(B, (0, 1), (-1, -2)),
        np.rollaxis(B, 2),
        np.rollaxis(B, 0, 3),
        np.swapaxes(B, 0, 2),
        b[:, 0],
        b[:, 0],
        b[:, 0],
    ]
    check([x, c], outputs, [B, b], want)
    with pytest.raises(TypeError, match="squeeze"):
        T.squeeze(x, 0)
    with pytest.raises(ValueError, match="twice"):
        T.moveaxis(x, [0, 0], [1, 2])


def test_at_least():
    values = [np.float64(2.0), V, A, B]
    inputs = [variable("float64", np.ndim(a)) for a in values]
    functions = ["atleast_1d", "atleast_2d", "atleast_3d"]
    outputs = [getattr(T, f)(x) for f in functions for x in inputs]
    check(inputs, outputs, values, [getattr(np, f)(a) for f in functions for a in values], False)


def test_broadcast_arrays():
    r, c, x, s = T.drow("r"), T.dcol("c"), T.dmatrix("x"), T.dscalar("s")
    values = [A[:1], A[:, :1], A, np.float64(1.5)]
    outputs = T.broadcast_arrays(r, c, x, s)
    check([r, c, x, s], list(outputs), values, np.broadcast_arrays(*values))
    assert [y.ndim for y in T.broadcast_arrays(T.dvector(), T.drow())] == [2, 2]
    v = T.dvector()
    check([v], list(T.broadcast_arrays(v, v)), [V], [V, V], False)


# ---- parts


def test_flip_roll_turn():
    x, k = variable("float64", 3, "x"), T.lscalar("k")
    outputs = [
        T.flip(x),
        T.flip(x, 1),
        T.flip(x, (0, -1)),
        T.flipud(x),
        T.fliplr(x),
        *[T.rot90(x, n) for n in range(-1, 5)],
        T.rot90(x, 1, (2, 1)),
        *[T.roll(x, n, axis) for n in (0, 2, -1, 7) for axis in (0, -1, None)],
    ]
    want = [
        np.flip(B),
        np.flip(B, 1),
        np.flip(B, (0, -1)),
        np.flipud(B),
        np.fliplr(B),
        *[np.rot90(B, n) for n in range(-1, 5)],
        np.rot90(B, 1, (2, 1)),
        *[np.roll(B, n, axis) for n in (0, 2, -1, 7) for axis in (0, -1, None)],
    ]
    check([x], outputs, [B], want)
    f = snug.function([x, k], T.roll(x, k, 1))
    for n in (0, 1, -5, 100):
        np.testing.assert_array_equal(f(B, n), np.roll(B, n, 1))
    np.testing.assert_array_equal(f(B[:, :0], 3), B[:, :0])


def test_split():
    x, sizes, n = T.dmatrix("x"), T.lvector("sizes"), T.lscalar("n")
    a = sample("float64", (6, 4), special=False)
    outputs = [*T.split(x, [1, 2, 3], 3), *T.split(x, [n, 4 - n], 2, axis=1), *T.split(x, sizes, 2)]
    want = [a[:1], a[1:3], a[3:], a[:, :1], a[:, 1:], a[:2], a[2:]]
    check([x, sizes, n], outputs, [a, np.array([2, 4]), 1], want)
    f = snug.function([x, sizes], T.split(x, sizes, 2))
    for wrong in ([2, 3], [6, 1]):
        with pytest.raises(ValueError, match="split"):
            f(a, wrong)
    with pytest.raises(ValueError, match="split"):
        T.split(x, [1, 2], 3)


def test_tile():
    x, n, reps = T.dmatrix("x"), T.lscalar("n"), T.lvector("reps")
    outputs = [
        T.tile(x, 2),
        T.tile(x, (2,)),
        T.tile(x, (3, 1)),
        T.tile(x, (2, 3)),
        T.tile(x, (2, 1, 3)),
        T.tile(x, [n, 2]),
        T.tile(x, n),
        T.tile(x, reps, ndim=2),
        T.tile(x, reps, ndim=3),
        T.tile(x, (2,), ndim=3),
        T.tile(x, np.array([1, 2])),
    ]
    a = A[:2, :3]
    want = [
        np.tile(a, 2),
        np.tile(a, 2),
        np.tile(a, (3, 1)),
        np.tile(a, (2, 3)),
        np.tile(a, (2, 1, 3)),
        np.tile(a, (3, 2)),
        np.tile(a, 3),
        np.tile(a, (2, 2)),
        np.tile(a, (1, 2, 2)),
        np.tile(a, (1, 1, 2)),
        np.tile(a, (1, 2)),
    ]
    check([x, n, reps], outputs, [a, 3, np.array([2, 2])], want)
    c = T.dcol("c")
    check([c], [T.tile(c, (2, 3))], [A[:, :1]], [np.tile(A[:, :1], (2, 3))])
    y = snug.function([x, n], T.tile(x, (n, 2)))
    assert y(a, 0).shape == (0, 6)
    with pytest.raises(ValueError, match="ndim"):
        T.tile(x, reps)


MODES = ["constant", "edge", "reflect", "symmetric", "wrap"]


@pytest.mark.parametrize("mode", MODES)
def test_pad(mode):
    x = T.dmatrix("x")
    widths = [1, (1, 2), ((1, 2), (0, 3)), ((0, 0), (5, 9)), ((7, 8), (9, 4))]
    outputs = [T.pad(x, w, mode) for w in widths]
    check([x], outputs, [A], [np.pad(A, w, mode) for w in widths])
    n = T.lscalar("n")
    f = snug.function([x, n], T.pad(x, ((n, 0), (1, n)), mode))
    for k in (0, 2):
        np.testing.assert_array_equal(f(A, k), np.pad(A, ((k, 0), (1, k)), mode))
    f = snug.function([x], T.pad(x, 2, mode))
    np.testing.assert_array_equal(f(A[:1, :1]), np.pad(A[:1, :1], 2, mode))


def test_pad_forms():
    x = T.lvector()
    got = snug.function([x], T.pad(x, (1, 2), constant_values=7))([1, 2])
    np.testing.assert_array_equal(got, [7, 1, 2, 7, 7])
    assert got.dtype == "int64"
    with pytest.raises(ValueError, match="mode 'mirror'"):
        T.pad(x, 1, "mirror")
    with pytest.raises(ValueError, match="a width is -1"):
        T.pad(x, (-1, 2), "edge")


def test_wrong_axes():
    x = T.matrix("x")
    for make in (lambda: T.rollaxis(x, 5), lambda: T.AllocDiag(0, 0, 7)(x[0])):
        with pytest.raises(ValueError, match="there is no axis"):
            make()


def test_reshape_forms():
    x = T.dmatrix("x")
    n = T.lvector("n")
    outputs = [x.reshape((3, 2)), x.reshape(3, 2), x.reshape(6, ndim=1), x.reshape([6])]
    check([x], outputs, [A[:2, :3]], [A[:2, :3].reshape(s) for s in ((3, 2), (3, 2), 6, 6)])
    for y in (x.reshape(n, ndim=2), x.reshape(n, 2), x.reshape(shape=n, ndim=2)):
        got = snug.function([x, n], y)(A[:2, :3], [3, 2])
        np.testing.assert_array_equal(got, A[:2, :3].reshape(3, 2))


def test_diff():
    x = T.dmatrix("x")
    outputs = [T.diff(x, n, axis) for n in (0, 1, 2, 5) for axis in (0, -1)]
    check([x], outputs, [A], [np.diff(A, n, axis) for n in (0, 1, 2, 5) for axis in (0, -1)])
    b = variable("bool", 1)
    a = np.array([True, False, False, True])
    np.testing.assert_array_equal(snug.function([b], T.diff(b))(a), np.diff(a))
    got = snug.function([x], T.ediff1d(x, to_end=[9.0, 8], to_begin=7.0))(A)
    np.testing.assert_allclose(got, np.ediff1d(A, [9.0, 8], 7.0))
    assert T.extra_ops.diff(x, n=1, axis=0).ndim == 2


# ---- joining


def test_stacks():
    x, y, u, v, s = T.dmatrix("x"), T.dmatrix("y"), T.dvector("u"), T.dvector("v"), T.dscalar("s")
    a, b = A, A[::-1] * 2
    p, q = V, V * 2
    outputs = [
        T.hstack([x, y]),
        T.hstack([u, v]),
        T.hstack([u, s]),
        T.vstack([x, y]),
        T.vstack([u, v]),
        T.dstack([x, y]),
        T.dstack([u, v]),
        T.column_stack([u, v]),
        T.column_stack([x.T, x.T]),
        T.stack([u, v], axis=-1),
    ]
    want = [
        np.hstack([a, b]),
        np.hstack([p, q]),
        np.hstack([p, 1.5]),
        np.vstack([a, b]),
        np.vstack([p, q]),
        np.dstack([a, b]),
        np.dstack([p, q]),
        np.column_stack([p, q]),
        np.column_stack([a.T, a.T]),
        np.stack([p, q], -1),
    ]
    check([x, y, u, v, s], outputs, [a, b, p, q, 1.5], want)


# ---- making


def test_ranges():
    s, e, n = T.dscalar("s"), T.dscalar("e"), T.lscalar("n")
    outputs = [
        T.linspace(s, e, 7),
        T.linspace(s, e, n),
        T.linspace(s, e, n, endpoint=False),
        T.linspace(s, e, 1),
        T.linspace(s, e, 0),
        T.logspace(s, e, n),
        T.logspace(s, e, 5, base=2.0, endpoint=False),
    ]
    want = [
        np.linspace(-1.0, 2.5, 7),
        np.linspace(-1.0, 2.5, 4),
        np.linspace(-1.0, 2.5, 4, endpoint=False),
        np.linspace(-1.0, 2.5, 1),
        np.linspace(-1.0, 2.5, 0),
        np.logspace(-1.0, 2.5, 4),
        np.logspace(-1.0, 2.5, 5, base=2.0, endpoint=False),
    ]
    check([s, e, n], outputs, [-1.0, 2.5, 4], want)
    assert T.linspace(0, 1).dtype == "float32"
    assert T.linspace(0, 10, 11, dtype="int64").dtype == "int64"
    assert snug.function([], T.linspace(0.1, 0.7, 50, dtype="float64"))()[-1] == 0.7


def test_grids():
    x, y, z = T.dvector(), T.dvector(), T.dvector()
    values = [V, V[:3], V[:2]]
    for indexing in ("xy", "ij"):
        for sparse in (False, True):
            outputs = T.meshgrid(x, y, z, indexing=indexing, sparse=sparse)
            want = np.meshgrid(*values, indexing=indexing, sparse=sparse)
            check([x, y, z], outputs, values, want, False)
    n = T.lscalar()
    dense, open_ = T.mgrid[0:n, 1:7:2], T.ogrid[0:n, 1:7:2]
    check([n], [*dense, *open_], [3], [*np.mgrid[0:3, 1:7:2], *np.ogrid[0:3, 1:7:2]], False)
    np.testing.assert_array_equal(snug.function([n], T.mgrid[:n])(4), np.mgrid[:4])
    one = snug.function([], T.mgrid[0:1:3j])()
    np.testing.assert_allclose(one, np.mgrid[0:1:3j])


def test_filled():
    x, n, s = T.dmatrix("x"), T.lscalar("n"), T.dscalar("s")
    outputs = [
        T.full((n, 2), 3.5),
        T.full((2, n), s),
        T.full_like(x, 4),
        T.full_like(x, s),
        T.zeros((n,)),
        T.ones_like(x),
        T.empty((2, n)),
        T.AllocEmpty("float64")(n, 3),
    ]
    want = [
        np.full((3, 2), 3.5),
        np.full((2, 3), 1.5),
        np.full((3, 4), 4.0),
        np.full((3, 4), 1.5),
        np.zeros(3),
        np.ones((3, 4)),
        np.zeros((2, 3)),
        np.zeros((3, 3)),
    ]
    check([x, n, s], outputs, [A, 3, 1.5], want, False)
    assert T.full((2,), 1, dtype="int8").dtype == "int8"
    assert T.full_like(x, 1, "int32").dtype == "int32"


def test_triangles():
    x, n = T.dmatrix("x"), T.lscalar("n")
    outputs = [
        *[T.tri(n, k=k) for k in (-2, 0, 1)],
        T.tri(n, 5),
        *[T.tril(x, k) for k in (-1, 0, 2)],
        *[T.triu(x, k) for k in (-1, 0, 2)],
        T.eye(n, 5, 1),
        T.identity_like(x),
    ]
    want = [
        *[np.tri(3, k=k) for k in (-2, 0, 1)],
        np.tri(3, 5),
        *[np.tril(A, k) for k in (-1, 0, 2)],
        *[np.triu(A, k) for k in (-1, 0, 2)],
        np.eye(3, 5, 1),
        np.eye(3, 4),
    ]
    check([x, n], outputs, [A, 3], want)


def test_bartlett():
    n = T.lscalar()
    f = snug.function([n], T.bartlett(n))
    for k in (0, 1, 2, 3, 8, 9):
        np.testing.assert_allclose(f(k), np.bartlett(k), atol=1e-7)


# ---- diagonals


def test_diagonals():
    x, t, v = T.dmatrix("x"), T.dtensor3("t"), T.dvector("v")
    offsets = [-5, -2, -1, 0, 1, 3, 9]
    outputs = [T.diagonal(x, k) for k in offsets]
    outputs += [T.diagonal(t, k, 2, 0) for k in offsets]
    outputs += [t.diagonal(1, -1, -2), T.ExtractDiag(1, 1, 2)(t), T.diag(x, 1)]
    outputs += [T.diag(v, k) for k in (-2, 0, 1)]
    want = [np.diagonal(A, k) for k in offsets]
    want += [np.diagonal(B, k, 2, 0) for k in offsets]
    want += [B.diagonal(1, -1, -2), np.diagonal(B, 1, 1, 2), np.diag(A, 1)]
    want += [np.diag(V, k) for k in (-2, 0, 1)]
    check([x, t, v], outputs, [A, B, V], want)
    y = snug.function([x], T.AllocDiag(1, 0, 2)(x))(A)
    np.testing.assert_array_equal(np.diagonal(y, 1, 0, 2), A)
    assert y.shape == (5, 3, 5) and np.count_nonzero(y) == A.size
    with pytest.raises(TypeError, match="diag"):
        T.diag(t)


def test_fill_diagonal():
    x, t, s, k = T.dmatrix("x"), T.dtensor3("t"), T.dscalar("s"), T.lscalar("k")
    cube = sample("float64", (3, 3, 3), special=False)
    wanted = [A.copy(), A.T.copy(), cube.copy()]
    for w in wanted:
        np.fill_diagonal(w, 2.5)
    outputs = [T.fill_diagonal(x, s), T.fill_diagonal(x.T, s), T.fill_diagonal(t, s)]
    check([x, t, s], outputs, [A, cube, 2.5], wanted)
    f = snug.function([x, s, k], T.fill_diagonal_offset(x, s, k))
    for offset in (-3, -1, 0, 2, 5):
        want = np.where(np.eye(3, 4, offset) != 0, 2.5, A)
        np.testing.assert_array_equal(f(A, 2.5, offset), want)
    y = T.fill_diagonal_offset(x, s, 1)
    agree_gradient("scatter_set", y, [x, s], [A, np.float64(2.5)])
    with pytest.raises(TypeError):
        T.fill_diagonal(T.dvector(), 1)


# ---- picking


def test_take():
    x, i, j = T.dtensor3("x"), T.lvector("i"), T.lmatrix("j")
    at, many = np.array([1, 0, -1]), np.array([[5, -7], [0, 30]])
    outputs = [T.take(x, i, axis) for axis in (0, 1, -1, None)]
    want = [np.take(B, at, axis) for axis in (0, 1, -1, None)]
    for mode in ("wrap", "clip"):
        outputs += [T.take(x, j, axis, mode) for axis in (0, 2, None)]
        want += [np.take(B, many, axis, mode=mode) for axis in (0, 2, None)]
    outputs += [x.take(1, 0), T.take(x, [0, 1], 2)]
    want += [np.take(B, 1, 0), np.take(B, [0, 1], 2)]
    check([x, i, j], outputs, [B, at, many], want)
    with pytest.raises(IndexError):
        snug.function([x, i], T.take(x, i, 0))(B, [2])
    with pytest.raises(ValueError, match="mode"):
        T.take(x, i, 0, "bounce")


def test_along_an_axis():
    x, i, y = T.dtensor3("x"), T.ltensor3("i"), T.dtensor3("y")
    for axis in (0, 1, -1):
        at = np.argsort(B, axis)
        values = np.take_along_axis(B * 2, at, axis)
        put = np.zeros_like(B)
        np.put_along_axis(put, at, values, axis)
        outputs = [T.take_along_axis(x, i, axis), T.put_along_axis(x, i, y, axis)]
        check([x, i, y], outputs, [B, at, values], [np.take_along_axis(B, at, axis), put])
    f = snug.function([x, i], T.take_along_axis(x, i, 1))
    at = np.array([[[0, 2, 1, 0]], [[1, 1, 0, 2]]])
    np.testing.assert_array_equal(f(B, at), np.take_along_axis(B, at, 1))


def test_choose():
    which, x, y, t = T.lvector("which"), T.dvector("x"), T.dvector("y"), T.dmatrix("t")
    at, far = np.array([0, 1, 1, 0]), np.array([0, 5, -3, 1])
    u, v = A[0], A[1]
    outputs = [T.choose(which, [x, y]), T.choose(which, t), which.choose([x, 3.0])]
    want = [np.choose(at, [u, v]), np.choose(at, A), np.choose(at, [u, 3.0])]
    check([which, x, y, t], outputs, [at, u, v, A], want)
    for mode in ("wrap", "clip"):
        got = snug.function([which, t], T.choose(which, t, mode=mode))(far, A)
        np.testing.assert_array_equal(got, np.choose(far, A, mode=mode))
    f = snug.function([which, t], T.choose(which, t))
    with pytest.raises(IndexError, match="choose"):
        f([0, 3, 0, 0], A)
    with pytest.raises(ValueError, match="choose: -1 is negative"):
        f([0, -1, 0, 0], A)
    m = T.lmatrix()
    wide = np.array([[0, 1, 2, 0], [1, 1, 0, 2]])
    np.testing.assert_array_equal(
        snug.function([m, t], T.choose(m, t))(wide, A), np.choose(wide, A)
    )


def test_conditions():
    x, c = T.dmatrix("x"), variable("bool", 1, "c")
    keep = np.array([True, False, True])
    a = np.where(A > 0, A, 0)
    outputs = [
        T.compress(c, x, 0),
        T.extra_ops.compress(c, x, 0),
        c.compress(x, 0),
        T.compress([0, 1, 1], x),
        T.nonzero_values(x),
        T.extract(x > 1, x),
    ]
    want = [
        np.compress(keep, a, 0),
        np.compress(keep, a, 0),
        np.compress(keep, a, 0),
        np.compress([0, 1, 1], a),
        a[a.nonzero()],
        np.extract(a > 1, a),
    ]
    check([x, c], outputs, [a, keep], want, False)
    agree_gradient("gather", outputs[:3], [x, c], [a, keep])
    places = [
        *T.nonzero(x),
        *T.where(x),
        T.flatnonzero(x),
        T.nonzero(x, return_matrix=True),
        T.argwhere(x),
        T.count_nonzero(x),
        T.count_nonzero(x, 0),
        T.where(x > 0, x, -1.0),
    ]
    want = [
        *np.nonzero(a),
        *np.where(a),
        np.flatnonzero(a),
        np.array(np.nonzero(a)),
        np.argwhere(a),
        np.count_nonzero(a),
        np.count_nonzero(a, 0),
        np.where(a > 0, a, -1.0),
    ]
    check([x], places, [a], want, False)


# ---- numbers of elements


def test_ravel():
    i, d, r, c = T.lmatrix(), T.lvector(), T.lvector(), T.lvector()
    at = np.array([[0, 7], [11, 5]])
    for order in ("C", "F"):
        for shape in ((3, 4), (2, 3, 2)):
            got = snug.function([i], list(T.unravel_index(i, shape, order=order)))(at)
            for g, w in zip(got, np.unravel_index(at, shape, order)):
                np.testing.assert_array_equal(g, w)
        f = snug.function([i, d], list(T.unravel_index(i, d, order, ndim=2)))
        for g, w in zip(f(at, [3, 4]), np.unravel_index(at, (3, 4), order)):
            np.testing.assert_array_equal(g, w)
        f = snug.function([r, c], T.ravel_multi_index((r, c), (3, 4), order=order))
        rows, columns = np.array([2, 0, 1]), np.array([3, 1, 0])
        want = np.ravel_multi_index((rows, columns), (3, 4), order=order)
        np.testing.assert_array_equal(f(rows, columns), want)
        for mode in ("wrap", "clip"):
            y = T.ravel_multi_index((r, c), (3, 4), mode, order)
            want = np.ravel_multi_index((rows + 2, columns - 2), (3, 4), mode, order)
            np.testing.assert_array_equal(snug.function([r, c], y)(rows + 2, columns - 2), want)
    with pytest.raises(IndexError, match="unravel_index"):
        snug.function([i], list(T.unravel_index(i, (3, 4))))([[12]])
    with pytest.raises(ValueError, match="ravel_multi_index: -1 is negative"):
        snug.function([r, c], T.ravel_multi_index((r, c), (3, 4)))([-1], [0])
    with pytest.raises(ValueError, match="order"):
        T.unravel_index(i, (3, 4), order="A")


def test_one_hot():
    i, m, n = T.lvector(), T.lmatrix(), T.lscalar()
    at = np.array([2, 0, 1])
    f = snug.function([i, n], [T.extra_ops.to_one_hot(i, n), T.one_hot(i, 4, "int8")])
    got = f(at, 3)
    np.testing.assert_array_equal(got[0], np.eye(3)[at])
    np.testing.assert_array_equal(got[1], np.eye(4)[at])
    assert got[0].dtype == "float32" and got[1].dtype == "int8"
    many = np.array([[0, 1], [2, 2]])
    np.testing.assert_array_equal(snug.function([m], T.one_hot(m, 3))(many), np.eye(3)[many])


def test_permutations():
    p, m, x = T.lvector("p"), T.lmatrix("m"), T.dmatrix("x")
    a, order = A, np.array([2, 0, 3, 1])
    rows = np.array([[2, 0, 3, 1], [0, 1, 2, 3], [3, 2, 1, 0]])
    outputs = [
        T.inverse_permutation(p),
        T.inverse_permutation(m),
        T.permute_row_elements(x, p),
        T.permute_row_elements(x, m),
        T.permute_row_elements(x, m, inverse=1),
        T.permute_row_elements(x[0], m),
    ]
    want = [
        np.argsort(order),
        np.argsort(rows, 1),
        a[:, order],
        np.take_along_axis(a, rows, 1),
        np.take_along_axis(a, np.argsort(rows, 1), 1),
        np.take_along_axis(np.stack([a[0]] * 3), rows, 1),
    ]
    check([p, m, x], outputs, [order, rows, a], want)


def test_roll_of_several_axes():
    x = T.tensor3("x")
    value = np.arange(24, dtype="float32").reshape(2, 3, 4)
    for shift, axis in [((1, -1), (0, 2)), (1, (0, 1)), ((1, 2), 1)]:
        f = snug.function([x], T.roll(x, shift, axis))
        np.testing.assert_array_equal(f(value), np.roll(value, shift, axis))
    with pytest.raises(ValueError, match="roll: 2 shifts for 3 axes"):
        T.roll(x, (1, 2), (0, 1, 2))


@pytest.mark.parametrize(
    "axis",
    [1, -1, np.int8(1), np.array(2), None, (0, 2), [1], range(1, 2), range(3), np.array([0, 1])],
    ids=str,
)
def test_forms_of_axes(axis):
    x = T.dtensor3("x")
    value = np.random.RandomState(0).rand(2, 3, 4)
    plain = tuple(axis) if np.ndim(axis) == 1 else axis
    for name in ("sum", "mean", "max", "std", "all"):
        got = snug.function([x], getattr(T, name)(x, axis=axis))(value)
        np.testing.assert_allclose(got, getattr(np, name)(value, axis=plain), rtol=1e-14)
        got = snug.function([x], getattr(x, name)(axis=axis, keepdims=True))(value)
        want = getattr(np, name)(value, axis=plain, keepdims=True)
        np.testing.assert_allclose(got, want, rtol=1e-14)


def test_forms_of_lists():
    x = T.dtensor3("x")
    value = np.random.RandomState(0).rand(2, 3, 4)
    for y, want in [
        (x.dimshuffle(range(3)), value),
        (x.dimshuffle(np.array([2, 0, 1])), value.transpose(2, 0, 1)),
        (x.transpose(range(2, -1, -1)), value.T),
        (T.moveaxis(x, np.array(0), 2), np.moveaxis(value, 0, 2)),
        (T.zeros(range(2, 4)), np.zeros((2, 3))),
    ]:
        got = snug.function([x], y, on_unused_input="ignore")(value)
        np.testing.assert_array_equal(got, want)


def test_seeds():
    from snug.tensor.shared_randomstreams import RandomStreams

    def draw(seed, again=None):
        streams = RandomStreams(seed)
        f = snug.function([], streams.uniform((4,)))
        if again is not None:
            f()
            streams.seed(again)
        return f()

    six = [1, 2, 3, 4, 5, 6]
    np.testing.assert_array_equal(draw(six), draw(np.array(six)))
    np.testing.assert_array_equal(draw(six), draw(5, tuple(six)))
    assert (draw(six) != draw([1, 2, 3, 4, 6, 5])).all()
    np.testing.assert_array_equal(draw(7), draw(np.int64(7)))
    for wrong in (-1, [], [1.5], "7", 2.5, [-1] * 6):
        with pytest.raises(ValueError, match="a seed is an integer"):
            draw(wrong)
