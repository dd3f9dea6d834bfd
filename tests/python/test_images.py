"""Windows of images, enlarging and sampling them, and normalisation over channels."""

import itertools

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import agree_gradient, sample, variable
from snug.tensor.nnet import abstract_conv as ac
from snug.tensor.nnet.neighbours import Images2Neibs, images2neibs, neibs2images


def neighbours(a, shape, step, mode):
    """The windows, one by one."""
    low = [0, 0]
    if mode in ("half", "full"):
        low = [s // 2 if mode == "half" else s - 1 for s in shape]
        a = np.pad(a, [(0, 0), (0, 0), (low[0],) * 2, (low[1],) * 2])
    if mode == "wrap_centered":
        half = [s // 2 for s in shape]
        counts = [-(-n // s) for n, s in zip(a.shape[2:], step)]
        a = np.pad(a, [(0, 0), (0, 0), (half[0],) * 2, (half[1],) * 2], mode="wrap")
    else:
        counts = [(n - k) // s + 1 for n, k, s in zip(a.shape[2:], shape, step)]
    found = []
    for n, c, i, j in itertools.product(*map(range, (*a.shape[:2], *counts))):
        r, q = i * step[0], j * step[1]
        found.append(a[n, c, r : r + shape[0], q : q + shape[1]].ravel())
    return np.array(found)


CASES = [
    ((2, 3), None, "valid"),
    ((2, 2), (1, 1), "valid"),
    ((4, 3), (2, 3), "ignore_borders"),
    ((3, 4), None, "ignore_borders"),
    ((3, 3), (1, 1), "half"),
    ((2, 3), (2, 1), "full"),
    ((3, 5), (1, 2), "wrap_centered"),
    ((3, 3), (2, 4), "wrap_centered"),
]


@pytest.mark.parametrize("shape, step, mode", CASES)
def test_images2neibs(shape, step, mode):
    x, a = T.dtensor4("x"), sample("float64", (2, 3, 6, 9), special=False)
    want = neighbours(a, shape, step or shape, mode)
    y = images2neibs(x, shape, step, mode)
    for run in ("fast", "reference", "check"):
        np.testing.assert_array_equal(snug.function([x], y, mode=run)(a), want)
    # Sizes that are expressions.
    s = T.lvector("s")
    again = images2neibs(x, s, step, mode) if step else Images2Neibs(mode)(x, s)
    np.testing.assert_array_equal(snug.function([x, s], again)(a, np.array(shape)), want)
    agree_gradient("gather", y, [x], [a[:1, :1]])
    numbers = images2neibs(T.constant(np.arange(54).reshape(1, 1, 6, 9)), shape, step, mode)
    assert numbers.dtype == "int64" and numbers.eval().shape == (len(want) // 6, want.shape[1])


def test_neibs2images():
    a = sample("float64", (2, 3, 6, 9), special=False)
    n = T.dmatrix("n")
    for shape, mode in [((2, 3), "valid"), ((4, 2), "ignore_borders")]:
        rows = neighbours(a, shape, shape, mode)
        want = a.copy()
        want[:, :, 6 // shape[0] * shape[0] :] = 0
        want[:, :, :, 9 // shape[1] * shape[1] :] = 0
        for given in (a.shape, T.constant(np.array(a.shape))):
            y = neibs2images(n, shape, given, mode)
            np.testing.assert_array_equal(y.eval({n: rows}), want)
    with pytest.raises(NotImplementedError):
        neibs2images(n, (2, 2), a.shape, "half")


def test_wrong_windows():
    x = T.dtensor4("x")
    a = np.zeros((1, 1, 5, 6))
    for arguments in [((2, 2),), ((6, 6),), ((2, 2), (1, 1), "wrap_centered")]:
        with pytest.raises(AssertionError, match="images2neibs: the sizes"):
            images2neibs(x, *arguments).eval({x: a})
    with pytest.raises(ValueError, match="did you mean 'valid'"):
        images2neibs(x, (2, 2), mode="vlid")
    with pytest.raises(TypeError):
        images2neibs(T.dmatrix(), (2, 2))


# ---- enlarging


def enlarge(a, p, q):
    """Along the last axis: p times as many places, of which every q-th stays."""
    kernel = np.concatenate([np.arange(1, p + 1), np.arange(p - 1, 0, -1)]) / p
    longer = np.concatenate([a[..., :1], a, a[..., -1:]], -1)
    spread = np.zeros((*a.shape[:-1], (longer.shape[-1] - 1) * p + 1))
    spread[..., ::p] = longer
    whole = np.apply_along_axis(lambda v: np.convolve(v, kernel), -1, spread)
    first = 2 * p - (p - 1) // 2 - 1
    return whole[..., first : first + a.shape[-1] * p][..., ::q]


def enlarged(a, rows, columns):
    return np.swapaxes(enlarge(np.swapaxes(enlarge(a, *columns), 2, 3), *rows), 2, 3)


def test_bilinear_upsampling():
    x, a = T.dtensor4("x"), sample("float64", (2, 3, 4, 5), special=False)
    for ratio in (1, 2, 3, 4, 5):
        want = enlarged(a, (ratio, 1), (ratio, 1))
        for kernel in (True, False):
            y = ac.bilinear_upsampling(x, ratio, use_1D_kernel=kernel)
            np.testing.assert_allclose(y.eval({x: a}), want, rtol=1e-13, atol=1e-13)
    for fraction in [(3, 2), ((7, 4), (2, 1)), ((1, 2), (5, 3)), (6, 4)]:
        rows, columns = fraction if isinstance(fraction[0], tuple) else (fraction, fraction)
        reduced = [tuple(np.array(f) // np.gcd(*f)) for f in (rows, columns)]
        y = ac.frac_bilinear_upsampling(x, fraction)
        np.testing.assert_allclose(y.eval({x: a}), enlarged(a, *reduced), rtol=1e-13, atol=1e-13)
    agree_gradient("gather", ac.bilinear_upsampling(x, frac_ratio=(3, 2)), [x], [a[:1, :1]])
    f = snug.function([x], ac.bilinear_upsampling(x, 2), micro_batches=2)
    np.testing.assert_array_equal(f(a), ac.bilinear_upsampling(x, 2).eval({x: a}))
    single = T.ftensor4()
    assert ac.bilinear_upsampling(single, 2).dtype == "float32"
    for wrong in ({}, {"ratio": 2, "frac_ratio": (3, 2)}, {"frac_ratio": 1.5}, {"ratio": 0}):
        with pytest.raises(ValueError):
            ac.bilinear_upsampling(x, **wrong)


def test_bilinear_kernels():
    np.testing.assert_allclose(ac.bilinear_kernel_1D(3).eval(), np.array([1, 2, 3, 2, 1]) / 3)
    np.testing.assert_allclose(ac.bilinear_kernel_1D(2, False).eval(), [1, 2, 1])
    found = ac.bilinear_kernel_2D((2, 3)).eval()
    np.testing.assert_allclose(found, np.outer([1, 2, 1], [1, 2, 3, 2, 1]) / 6, rtol=1e-6)
    n = T.lscalar("n")
    np.testing.assert_allclose(ac.bilinear_kernel_1D(n).eval({n: 2}), [0.5, 1, 0.5])


# ---- sampling


def transformed(a, theta, rows, columns, border):
    n, c, height, width = a.shape
    out = np.zeros((n, c, rows, columns))
    for k, i, j in itertools.product(range(n), range(rows), range(columns)):
        at = np.array([2 * j / (columns - 1) - 1, 2 * i / (rows - 1) - 1, 1])
        x, y = theta[k] @ at
        x, y = (x + 1) * (width - 1) / 2, (y + 1) * (height - 1) / 2
        for r, q in itertools.product((0, 1), (0, 1)):
            place = int(np.floor(y)) + r, int(np.floor(x)) + q
            weight = (1 - abs(y - place[0])) * (1 - abs(x - place[1]))
            inside = 0 <= place[0] < height and 0 <= place[1] < width
            if border == "nearest" or inside:
                near = np.clip(place[0], 0, height - 1), np.clip(place[1], 0, width - 1)
                out[k, :, i, j] += weight * a[k, :, near[0], near[1]]
    return out


@pytest.mark.parametrize("border", ["zero", "nearest"])
def test_spatial_transformer(border):
    img, theta = T.dtensor4("img"), T.dtensor3("theta")
    a = sample("float64", (3, 2, 5, 6), special=False)
    maps = np.array([np.eye(2, 3), [[0.6, -0.4, 0.3], [0.5, 0.7, -0.2]], [[-1.7, 0, 0], [0, 1, 9]]])
    y = T.nnet.spatial_transformer(img, theta, 1.5, 0.7, border)
    want = transformed(a, maps, 4, 9, border)
    for run in ("fast", "reference", "check"):
        got = snug.function([img, theta], y, mode=run)(a, maps)
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
    same = T.nnet.spatial_transformer(img, theta)
    np.testing.assert_allclose(same.eval({img: a[:1], theta: maps[:1]}), a[:1], atol=1e-12)
    irregular = np.array([[[0.613, -0.417, 0.317], [0.523, 0.737, -0.213]]])  # no place exactly met
    agree_gradient("gather", y, [img, theta], [a[1:2, :1, :3, :4], irregular], 1e-5)


# ---- normalisation and whole images


def test_local_response_normalization():
    for shape in [(2, 7, 3, 4), (2, 7), (3, 4, 5)]:
        x = variable("float64", len(shape), "x")
        a = sample("float64", shape, special=False)
        for size in (1, 2, 3, 5):
            want = np.zeros(shape)
            for c in range(shape[1]):
                part = a[:, max(0, c - size // 2) : c + (size - 1) // 2 + 1]
                want[:, c] = a[:, c] / (2 + 0.1 * (part**2).sum(1)) ** 0.75
            y = T.nnet.local_response_normalization(x, size, 0.1)
            np.testing.assert_allclose(y.eval({x: a}), want, rtol=1e-12)
    agree_gradient("average_pool", y, [x], [a[:1, :, :2]])
    f = snug.function([x], y, micro_batches=3)
    np.testing.assert_allclose(f(a), want, rtol=1e-12)


def test_global_pool():
    x, a = T.dtensor4("x"), sample("float64", (2, 3, 4, 5), special=False)
    for mode, numpy in [("average", np.mean), ("max", np.max), ("sum", np.sum)]:
        found = T.nnet.global_pool(x, mode).eval({x: a})
        np.testing.assert_allclose(found, numpy(a, (2, 3)), rtol=1e-13)
    with pytest.raises(ValueError, match="did you mean 'max'"):
        T.nnet.global_pool(x, "mx")
