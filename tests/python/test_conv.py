"""Convolutions over one to three axes, their gradients as functions, and unshared filters, against
sums over windows."""

import itertools

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import FLOATS, agree, agree_gradient, ops_of, rows, sample, variable, wide
from snug.tensor.nnet import abstract_conv as ac
from snug.tensor.nnet import conv as old_conv
from snug.tensor.signal import conv as signal_conv


def taps(a, kernel, stride, dilation, pad):
    """(batch, channels, result..., kernel...): the element that every tap meets."""
    axes = len(kernel)
    a = np.pad(a, [(0, 0), (0, 0), *zip(pad[::2], pad[1::2])])
    sizes = [
        (a.shape[2 + k] - (kernel[k] - 1) * dilation[k] - 1) // stride[k] + 1 for k in range(axes)
    ]
    out = np.zeros((*a.shape[:2], *sizes, *kernel), a.dtype)
    for tap in itertools.product(*map(range, kernel)):
        cut = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilation, sizes, stride)
        ]
        out[(..., *tap)] = a[(slice(None), slice(None), *cut)]
    return out


def convolve(a, w, pad, stride, dilation, flip=True, groups=1):
    axes = a.ndim - 2
    unshared = w.ndim == 2 + 2 * axes and axes == 2
    if flip:
        w = w[(..., *[slice(None, None, -1)] * axes)]
    found = taps(a, w.shape[-axes:], stride, dilation, pad)
    letters = "xyz"[:axes], "uvw"[:axes]
    per, out = w.shape[0] // groups, []
    for g in range(groups):
        part = found[:, g * w.shape[-axes - 1] : (g + 1) * w.shape[-axes - 1]]
        places = letters[0] if unshared else ""
        rule = f"ni{letters[0]}{letters[1]},o{places}i{letters[1]}->no{letters[0]}"
        out.append(np.einsum(rule, part, w[g * per : (g + 1) * per]))
    return np.concatenate(out, 1)


CASES_3D = [  # pad, stride, dilation, flip, groups
    ((0, 0, 0), (1, 1, 1), (1, 1, 1), True, 1),
    ((1, 0, 2), (2, 1, 1), (1, 1, 1), False, 1),
    ((2, 1, 1), (1, 2, 3), (2, 1, 1), True, 1),
    ((1, 1, 1), (1, 1, 2), (1, 1, 1), False, 2),
    ((0, 1, 0), (2, 1, 1), (1, 2, 1), True, 4),
]


def both(pad):
    return [p for side in pad for p in (side, side)]


@rows("conv3d", "conv3d_grad_input", "conv3d_grad_weight")
def test_conv3d(row):
    for (pad, stride, dilation, flip, groups), dtype in itertools.product(CASES_3D, FLOATS):
        x, w, dy = (variable(dtype, 5, name) for name in ("x", "w", "dy"))
        a = sample(dtype, (2, 4, 5, 4, 6), special=False, key=1)
        b = sample(dtype, (4, 4 // groups, 2, 2, 3), special=False, key=2)
        y = T.nnet.conv3d(
            x,
            w,
            border_mode=pad,
            subsample=stride,
            filter_flip=flip,
            filter_dilation=dilation,
            num_groups=groups,
        )
        way = (both(pad), stride, dilation, flip, groups)
        want = convolve(wide(a), wide(b), *way)
        inner = b[0].size if row == "conv3d" else want[0].size
        what, ulps = f"{dtype} {way}", 8 + inner if dtype in ("float32", "float64") else 4
        scale = 16.0 * inner
        if row == "conv3d":
            none = np.zeros((0, *a.shape[1:]), a.dtype)
            calls = [((a, b), want), ((none, b), want[:0])]
            agree(row, [x, w], y, calls, ulps, scale=scale, what=what)
            if dtype == "float64" and pad == (1, 0, 2):
                agree_gradient(row, y, [x, w], [a[:1, :1, :2, :3, :3], b[:1, :1]], 1e-5)
            continue
        if dtype not in ("float32", "float64"):
            continue
        c = sample(dtype, want.shape, special=False, key=3)
        # The adjoint: of unit vectors, through what is linear.
        which = 0 if row == "conv3d_grad_input" else 1
        shape = (a, b)[which].shape
        gradient = np.zeros(shape)
        rng = np.random.default_rng(0)
        places = [tuple(int(rng.integers(0, s)) for s in shape) for _ in range(6)]
        for at in places:
            unit = np.zeros(shape)
            unit[at] = 1
            moved = (unit, wide(b)) if which == 0 else (wide(a), unit)
            gradient[at] = (wide(c) * convolve(*moved, *way)).sum()
        found = T.Lop(y, [x, w][which], dy)
        assert row in ops_of([found])
        for mode in ("fast", "reference", "check"):
            got = snug.function([x, w, dy], found, mode=mode, on_unused_input="ignore")(a, b, c)
            for at in places:
                error = np.finfo(dtype).eps * inner * 16
                assert abs(got[at] - gradient[at]) <= error * max(1, abs(gradient[at])), (what, at)


MODES = ["valid", "half", "full", 1, (1, 2), ((1, 0), (2, 1))]


def sides(mode, kernel, dilation):
    """The padding of a border mode, low and high of every axis."""
    reach = [(k - 1) * d for k, d in zip(kernel, dilation)]
    if mode == "half":
        return both([(r + 1) // 2 for r in reach])
    if mode in ("valid", "full"):
        return both(reach if mode == "full" else [0] * len(kernel))
    mode = (mode,) * len(kernel) if isinstance(mode, int) else mode
    return [p for m in mode for p in ((m, m) if isinstance(m, int) else m)]


def test_border_modes_and_known_sizes():
    x, w = T.dtensor4("x"), T.dtensor4("w")
    a = sample("float64", (2, 4, 7, 8), special=False)
    b = sample("float64", (6, 2, 3, 2), special=False, key=1)
    for mode, dilation, flip in itertools.product(MODES, [(1, 1), (2, 3)], [True, False]):
        options = {"border_mode": mode, "filter_dilation": dilation, "num_groups": 2}
        options |= {"subsample": (2, 1), "filter_flip": flip}
        want = convolve(a, b, sides(mode, (3, 2), dilation), (2, 1), dilation, flip, 2)
        forms = [(w, {}), (w, {"filter_shape": b.shape}), (snug.shared(b), {}), (T.constant(b), {})]
        for filters, more in forms:
            y = T.nnet.conv2d(x, filters, **options, **more)
            given = {x: a, w: b} if filters is w else {x: a}
            np.testing.assert_allclose(y.eval(given), want, rtol=1e-12, atol=1e-12)
        dy = variable("float64", 4)
        c = sample("float64", want.shape, special=False, key=2)
        images, filters = T.Lop(T.nnet.conv2d(x, w, filter_shape=b.shape, **options), [x, w], dy)
        found = [
            ac.conv2d_grad_wrt_inputs(dy, w, (None, None, 7, 8), **options),
            ac.conv2d_grad_wrt_inputs(dy, w, (2, 4, *x.shape[2:]), b.shape, **options),
            ac.conv2d_grad_wrt_weights(x, dy, (None, None, 3, 2), **options),
            ac.conv2d_grad_wrt_weights(x, dy, (6, 2, w.shape[2], w.shape[3]), **options),
        ]
        f = snug.function([x, w, dy], [images, images, filters, filters, *found])
        results = f(a, b, c)
        for want, got in zip(results[:4], results[4:]):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def test_conv1d_and_causal():
    x, w = T.dtensor3("x"), T.dtensor3("w")
    a = sample("float64", (2, 4, 11), special=False)
    b = sample("float64", (2, 2, 3), special=False, key=1)
    for mode, filters in itertools.product(["valid", "half", "full", 2, (2, 1)], [w, b]):
        y = T.nnet.conv1d(x, filters, None, mode, 2, True, 2, 2)
        pad = list(mode) if isinstance(mode, tuple) else sides(mode, (3,), (2,))
        want = convolve(a, b, pad, (2,), (2,), True, 2)
        got = snug.function([x, w], y, on_unused_input="ignore")(a, b)
        np.testing.assert_allclose(got, want, rtol=1e-12)
    shared = T.nnet.conv1d(x, snug.shared(b), border_mode="half", num_groups=2)
    np.testing.assert_allclose(
        shared.eval({x: a}), convolve(a, b, [1, 1], (1,), (1,), True, 2), rtol=1e-12
    )
    agree_gradient("conv2d", T.nnet.conv1d(x, w, border_mode="full"), [x, w], [a[:1, :2, :4], b])
    for given in (b.shape, None):
        y = ac.causal_conv1d(x, w, given, subsample=2, filter_dilation=2, num_groups=2)
        want = convolve(a, b, [4, 0], (2,), (2,), True, 2)
        np.testing.assert_allclose(y.eval({x: a, w: b}), want, rtol=1e-12)


@pytest.mark.parametrize("groups", [1, 2])
def test_unshared(groups):
    x, w = T.dtensor4("x"), variable("float64", 6, "w")
    a = sample("float64", (2, 4, 5, 6), special=False)
    for mode, stride, dilation, flip in [
        ("valid", (1, 1), (1, 1), True),
        ("half", (2, 1), (1, 1), False),
        (((1, 0), (2, 1)), (1, 2), (2, 1), True),
    ]:
        pad = sides(mode, (2, 3), dilation)
        size = taps(a, (2, 3), stride, dilation, pad).shape[2:4]
        b = sample("float64", (4, *size, 4 // groups, 2, 3), special=False, key=1)
        options = {"border_mode": mode, "subsample": stride, "filter_dilation": dilation}
        options |= {"filter_flip": flip, "num_groups": groups, "unshared": True}
        y = T.nnet.conv2d(x, w, filter_shape=b.shape, **options)
        want = convolve(a, b, pad, stride, dilation, flip, groups)
        for run in ("fast", "reference"):
            got = snug.function([x, w], y, mode=run)(a, b)
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        dy, c = T.dtensor4("dy"), sample("float64", want.shape, special=False, key=2)
        images, filters = T.Lop(y, [x, w], dy)
        found = [
            ac.conv2d_grad_wrt_inputs(dy, w, (None, None, 5, 6), b.shape, **options),
            ac.conv2d_grad_wrt_weights(x, dy, (None,) * 4 + (2, 3), **options),
        ]
        results = snug.function([x, w, dy], [images, filters, *found])(a, b, c)
        for want, got in zip(results[:2], results[2:]):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        unit = np.zeros(a.shape)
        unit[1, 2, 3, 4] = 1
        by_hand = (c * convolve(unit, b, pad, stride, dilation, flip, groups)).sum()
        np.testing.assert_allclose(results[0][1, 2, 3, 4], by_hand, rtol=1e-11)
    small = [a[:1, :, :3, :3], sample("float64", (2, 2, 1, 4, 2, 3), special=False)]
    y = T.nnet.conv2d(x, w, unshared=True)
    agree_gradient("mul", y, [x, w], small, 1e-5)
    parts = snug.function([x, w], y, micro_batches=2)(np.concatenate([small[0]] * 4), small[1])
    whole = snug.function([x, w], y)(small[0], small[1])
    np.testing.assert_allclose(parts, np.concatenate([whole] * 4), rtol=1e-13)
    with pytest.raises(TypeError, match="unshared=False"):
        T.nnet.conv2d(x, w)


def test_transpose():
    x, w = T.dtensor4("x"), T.dtensor4("w")
    a = sample("float64", (2, 3, 3, 4), special=False)
    b = sample("float64", (3, 2, 3, 3), special=False, key=1)
    for rows_, columns in [(5, 7), (6, 8), (5, 8)]:  # all of them make 3 rows and 4 columns
        shape = (None, None, rows_, columns)
        y = T.nnet.conv2d_transpose(x, w, shape, b.shape, (1, 1), (2, 2))
        want = np.zeros((2, 2, rows_, columns))
        for at in np.ndindex(want.shape):
            unit = np.zeros(want.shape)
            unit[at] = 1
            want[at] = (a * convolve(unit, b, [1] * 4, (2, 2), (1, 1))).sum()
        np.testing.assert_allclose(y.eval({x: a, w: b}), want, rtol=1e-12, atol=1e-12)
    agree_gradient("conv2d_grad_input", y, [x, w], [a[:1, :, :, :], b])
    with pytest.raises(ValueError, match="the gradient has another size"):
        T.nnet.conv2d_transpose(x, w, (2, 2, 9, 9), b.shape, (1, 1), (2, 2)).eval({x: a, w: b})


def test_conv3d_gradients_as_functions():
    x, w, dy = (variable("float64", 5, name) for name in ("x", "w", "dy"))
    a = sample("float64", (2, 2, 4, 5, 3), special=False)
    b = sample("float64", (3, 2, 2, 3, 2), special=False, key=1)
    y = T.nnet.conv3d(x, w, None, b.shape, "half", (2, 1, 1))
    c = sample("float64", convolve(a, b, both((1, 1, 1)), (2, 1, 1), (1,) * 3).shape, special=False)
    want = T.Lop(y, [x, w], dy)
    got = [
        ac.conv3d_grad_wrt_inputs(dy, w, (None, None, 4, 5, 3), b.shape, "half", (2, 1, 1)),
        ac.conv3d_grad_wrt_weights(x, dy, b.shape, None, "half", (2, 1, 1)),
    ]
    results = snug.function([x, w, dy], [*want, *got])(a, b, c)
    for first, second in zip(results[:2], results[2:]):
        np.testing.assert_allclose(first, second, rtol=1e-12)


def test_separable():
    x = T.dtensor4("x")
    a = sample("float64", (2, 3, 5, 6), special=False)
    depth = sample("float64", (6, 1, 2, 2), special=False, key=1)
    point = sample("float64", (4, 6, 1, 1), special=False, key=2)
    y = T.nnet.separable_conv2d(x, depth, point, 3, border_mode="half")
    first = convolve(a, depth, [1] * 4, (1, 1), (1, 1), True, 3)
    want = convolve(first, point, [0] * 4, (1, 1), (1, 1))
    np.testing.assert_allclose(y.eval({x: a}), want, rtol=1e-12)


def test_old_interfaces():
    x, a = T.dtensor4("x"), sample("float64", (2, 3, 5, 6), special=False)
    w, b = T.dtensor4("w"), sample("float64", (4, 3, 2, 3), special=False, key=1)
    for mode in ("valid", "full"):
        want = convolve(a, b, sides(mode, (2, 3), (1, 1)), (2, 1), (1, 1))
        y = old_conv.conv2d(x, w, a.shape, b.shape, mode, (2, 1), unroll_batch=2)
        z = old_conv.ConvOp((3, 5, 6), (2, 3), 4, 2, 2, 1, mode)(x, w)
        for found in (y, z):
            np.testing.assert_allclose(found.eval({x: a, w: b}), want, rtol=1e-12)
    with pytest.raises(ValueError, match="'valid' or 'full'"):
        old_conv.conv2d(x, w, border_mode="half")
    for image, kernel in itertools.product([a[0], a[0, 0]], [b[0], b[0, 0]]):
        images = image if image.ndim == 3 else image[None]
        kernels = kernel if kernel.ndim == 3 else kernel[None]
        full = convolve(images[:, None], kernels[:, None], [1, 1, 2, 2], (1, 1), (1, 1))
        want = full[tuple(slice(None) if v.ndim == 3 else 0 for v in (image, kernel))]
        y = signal_conv.conv2d(T.constant(image), T.constant(kernel), border_mode="full")
        np.testing.assert_allclose(y.eval(), want, rtol=1e-12)


def test_shapes():
    shape = ac.get_conv_output_shape
    for mode, stride, dilation in itertools.product(MODES, [(1, 1), (2, 3)], [(1, 1), (2, 1)]):
        pad = sides(mode, (3, 2), dilation)
        real = taps(np.zeros((2, 3, 9, 8)), (3, 2), stride, dilation, pad).shape[2:4]
        found = shape((2, 3, 9, 8), (4, 3, 3, 2), mode, stride, dilation)
        assert found == (2, 4, *real)
        if stride == (1, 1):
            images = ac.get_conv_gradinputs_shape((4, 3, 3, 2), found, mode, stride, dilation)
            assert images == (2, 3, 9, 8)
            if mode != "half" and dilation == (1, 1):
                filters = ac.get_conv_gradweights_shape((2, 3, 9, 8), found, mode, stride)
                assert filters[2:] == (3, 2)
        checked = ac.check_conv_gradinputs_shape(
            *((2, 3, 9, 8), (4, 3, 3, 2), found, mode, stride, dilation)
        )
        assert checked
    assert shape((None, 3, None, 8), (4, 3, 3, 2), "valid", (1, 1)) == (None, 4, None, 7)
    assert not ac.check_conv_gradinputs_shape(
        *((2, 3, 9, 8), (4, 3, 3, 2), (2, 4, 6, 7), "valid", (1, 1))
    )
    assert ac.border_mode_to_pad("half", 2, (3, 4)) == ((1, 1), (2, 2))
    assert ac.border_mode_to_pad((1, (2, 0)), 2, (3, 4)) == ((1, 1), (2, 0))
    assert ac.assert_conv_shape((2, 3, 4, 5)) == (2, 3, 4, 5)
    with pytest.raises(ValueError):
        ac.assert_conv_shape((2, 3, 0, 5))
    x = T.dtensor4("x")
    with pytest.raises(AssertionError):
        ac.assert_shape(x, (None, 3, None, None)).eval({x: np.zeros((1, 2, 2, 2))})


def test_micro_batches():
    x, w = variable("float32", 5, "x"), variable("float32", 5, "w")
    a = sample("float32", (8, 2, 4, 5, 5), special=False)
    b = sample("float32", (3, 2, 2, 2, 2), special=False, key=1)
    y = T.nnet.conv3d(x, w)
    outputs = [y, *T.grad(T.sqr(y).sum(), [x, w])]
    whole = snug.function([x, w], outputs)(a, b)
    parts = snug.function([x, w], outputs, micro_batches=4)(a, b)
    for got, want in zip(parts, whole):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("stride, dilation", [((1, 1), (1, 1)), ((1, 2), (2, 1)), ((2, 2), (2, 2))])
@pytest.mark.parametrize("border", ["valid", "half", "full", 1])
def test_shared_filters_change_their_size(border, stride, dilation, dtype):
    """The padding follows from the size that filters have at the call, in the gradients, too."""
    rng = np.random.RandomState(0)
    x, r = variable(dtype, 4, "x"), variable(dtype, 4, "r")
    w = snug.shared(rng.randn(2, 3, 5, 4).astype(dtype), "w")
    y = T.nnet.conv2d(x, w, border_mode=border, subsample=stride, filter_dilation=dilation)
    forward = snug.function([x], y)
    gradients = snug.function([x, r], T.grad((y * r).sum(), [x, w]))
    close = {"rtol": 1e-4 if dtype == "float32" else 1e-11, "atol": 1e-4}
    for kernel in [(5, 4), (3, 3), (2, 5), (1, 1)]:
        a = rng.randn(2, 3, 11, 10).astype(dtype)
        b = rng.randn(2, 3, *kernel).astype(dtype)
        w.set_value(b)
        reach = [(n - 1) * d for n, d in zip(kernel, dilation)]
        pad = {
            "valid": [0, 0],
            "half": [(n + 1) // 2 for n in reach],
            "full": reach,
        }.get(border, [1, 1])

        def conv(a, b, pad=pad):
            return convolve(a, b, both(pad), stride, dilation)

        want = conv(a, b)
        np.testing.assert_allclose(forward(a), want, **close)
        c = rng.randn(*want.shape).astype(dtype)
        da, db = rng.randn(*a.shape), rng.randn(*b.shape)
        ga, gb = gradients(a, c)  # of something linear in a and in b
        np.testing.assert_allclose((ga * da).sum(), (conv(da, b) * c).sum(), **close)
        np.testing.assert_allclose((gb * db).sum(), (conv(a, db) * c).sum(), **close)


def test_filters_of_other_kinds_change_their_size():
    """Over one axis, over three, transposed, and filters that are arguments."""
    rng = np.random.RandomState(1)
    for border in ("half", "full"):
        w1, w3 = snug.shared(rng.randn(2, 3, 5)), snug.shared(rng.randn(2, 3, 3, 2, 3))
        x1, x3, x, w = T.dtensor3(), T.dtensor5(), T.dtensor4(), T.dtensor4()
        f = snug.function([x1], T.nnet.conv1d(x1, w1, border_mode=border))
        g = snug.function([x3], T.nnet.conv3d(x3, w3, border_mode=border))
        h = snug.function([x, w], T.nnet.conv2d(x, w, border_mode=border))
        for n in (5, 3, 2):
            w1.set_value(rng.randn(2, 3, n))
            w3.set_value(rng.randn(2, 3, n, 2, n))
            pad = n - 1 if border == "full" else n // 2
            second = 1  # of a filter of size 2, with either border
            a1, a3 = rng.randn(2, 3, 9), rng.randn(1, 3, 6, 5, 6)
            want = convolve(
                a1[:, :, None], w1.get_value()[:, :, None], [0, 0, pad, pad], [1] * 2, [1] * 2
            )
            np.testing.assert_allclose(f(a1), want[:, :, 0], atol=1e-12)
            pads = both([pad, second, pad])
            want = convolve(a3, w3.get_value(), pads, [1] * 3, [1] * 3)
            np.testing.assert_allclose(g(a3), want, atol=1e-12)
            a, b = rng.randn(2, 3, 7, 8), rng.randn(4, 3, n, 2)
            want = convolve(a, b, both([pad, second]), [1] * 2, [1] * 2)
            np.testing.assert_allclose(h(a, b), want, atol=1e-12)
