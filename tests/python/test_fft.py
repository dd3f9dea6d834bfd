"""Fourier transforms: values against numpy.fft, gradients against finite differences, Theano's
rfft and irfft by their documentation."""

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import MODES, agree, agree_gradient, rows, sample
from snug import _core
from snug.tensor import fft
from test_complex import check_gradient, close, draw, variable

LENGTHS = [1, 2, 3, 4, 7, 8, 13, 16, 30, 97, 101, 128]
FLOATS = ["float32", "float64"]


def pairs(z, dtype):
    z = np.asarray(z)
    return np.stack([z.real, z.imag], -1).astype(dtype)


def scale_of(x, dtype):
    """What a transform rounds relative to: the sum of all sizes."""
    return np.abs(np.asarray(x, "complex128")).sum() + np.finfo(dtype).tiny


# ---- rows


@rows("fft")
@pytest.mark.parametrize("dtype", FLOATS)
def test_fft_row(row, dtype):
    p = T.TensorType(dtype, (False,) * 4)()
    complex_p = T.view_as_complex(p)
    for shape in [(2, 3, 5, 2), (1, 8, 1, 2), (0, 3, 4, 2), (2, 0, 3, 2)]:
        x = sample(dtype, shape, special=False)
        z = x[..., 0].astype("complex128") + 1j * x[..., 1]
        for axis in range(3):
            if shape[axis] == 0:
                continue
            y = T.view_as_real(fft.fft(complex_p, axis=axis))
            want = pairs(np.fft.fft(z, axis=axis), "float64")
            agree(row, [p], y, [((x,), want)], 30, scale=scale_of(z, dtype))
    q = T.dtensor3()
    for inverse in (fft.fft, fft.ifft):
        y = T.view_as_real(inverse(T.view_as_complex(q), axis=0))
        agree_gradient(row, y, [q], [sample("float64", (5, 2, 2), special=False)])


@rows("rfft")
@pytest.mark.parametrize("dtype", FLOATS)
def test_rfft_row(row, dtype):
    x = T.TensorType(dtype, (False,) * 2)()
    for n in [1, 2, 5, 8, 97]:
        for axis, shape in [(1, (3, n)), (0, (n, 3)), (1, (0, n))]:
            value = sample(dtype, shape, special=False)
            y = T.view_as_real(fft.real_fft(x, axis=axis))
            want = pairs(np.fft.rfft(value.astype("float64"), axis=axis), "float64")
            agree(row, [x], y, [((value,), want)], 30, scale=scale_of(value, dtype))
    m = T.dmatrix()
    for n in [1, 2, 5, 8]:
        y = T.view_as_real(fft.real_fft(m))
        agree_gradient(row, y, [m], [sample("float64", (2, n), special=False)])


@rows("irfft")
@pytest.mark.parametrize("dtype", FLOATS)
def test_irfft_row(row, dtype):
    p = T.TensorType(dtype, (False,) * 3)()
    z = T.view_as_complex(p)
    for n in [1, 2, 5, 8, 97]:
        value = sample(dtype, (3, n // 2 + 1, 2), special=False)
        points = value[..., 0].astype("float64") + 1j * value[..., 1]
        want = np.fft.irfft(points, n)
        agree(row, [p], fft.real_ifft(z, n), [((value,), want)], 30, scale=scale_of(points, dtype))
    q = T.dtensor3()
    for n in [1, 2, 5, 8]:
        y = fft.real_ifft(T.view_as_complex(q), n)
        agree_gradient(row, y, [q], [sample("float64", (2, n // 2 + 1, 2), special=False)])


# ---- functions with NumPy's meaning


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n, dtype):
    z = variable(dtype, 2)
    value = draw((3, n), dtype)
    f = snug.function([z], [fft.fft(z), fft.ifft(z), fft.ifft(fft.fft(z))])
    wide = value.astype("complex128")
    wanted = [np.fft.fft(wide), np.fft.ifft(wide), wide]
    for got, want in zip(f(value), wanted):
        assert got.dtype == dtype
        error = np.abs(got - want).max()
        assert error <= 10 * np.finfo(dtype).eps * max(1, np.abs(want).max()), (n, error)


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 3, 5, 9])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_arguments(name, n, norm):
    ours = getattr(fft, {"rfft": "real_fft", "irfft": "real_ifft"}.get(name, name))
    value = draw((5, 4))
    value = value.real.copy() if name == "rfft" else value
    x = variable(str(value.dtype), 2)
    axes = (0, 1, -1, -2)
    for mode in MODES if norm == "ortho" else ["fast"]:
        f = snug.function([x], [ours(x, n, axis, norm) for axis in axes], mode=mode)
        for axis, got in zip(axes, f(value)):
            close(got, getattr(np.fft, name)(value, n, axis, norm), f"{name} {axis}", 100)
    if norm == "ortho":
        check_gradient(lambda v: ours(v, n, 0, norm), [value], 1e-5)


def test_known_sizes():
    x = T.constant(draw((5,)))
    for n in (3, 5, 8):
        close(snug.function([], fft.fft(x, n))(), np.fft.fft(x.data, n))
    n = T.lscalar()
    y = T.zvector()
    f = snug.function([y, n], fft.fft(y, n))
    close(f(x.data, 7), np.fft.fft(x.data, 7))
    close(f(x.data, 2), np.fft.fft(x.data, 2))


def test_several_axes():
    z = T.ztensor3()
    value = draw((3, 4, 5))
    for ours, numpys in [(fft.fftn, np.fft.fftn), (fft.ifftn, np.fft.ifftn)]:
        for axes in (None, (0, 2), (-1,), [1, 0]):
            close(snug.function([z], ours(z, axes=axes))(value), numpys(value, axes=axes), "", 100)
        want = numpys(value, s=(2, 6), axes=(0, 1))
        close(snug.function([z], ours(z, s=(2, 6), axes=(0, 1)))(value), want, "", 100)
    for ours, numpys in [(fft.fft2, np.fft.fft2), (fft.ifft2, np.fft.ifft2)]:
        close(snug.function([z], ours(z))(value), numpys(value), "", 100)
    check_gradient(lambda v: abs(fft.fft2(v)) ** 2, [draw((2, 3))], 1e-5)


def test_shifts():
    for shape in [(4,), (5,), (3, 4), (1, 2)]:
        x = variable("float64", len(shape))
        value = np.arange(np.prod(shape), dtype="float64").reshape(shape)
        for axes in (None, 0, (-1,)):
            f = snug.function([x], [fft.fftshift(x, axes), fft.ifftshift(x, axes)])
            moved, back = f(value)
            np.testing.assert_array_equal(moved, np.fft.fftshift(value, axes))
            np.testing.assert_array_equal(back, np.fft.ifftshift(value, axes))


def test_frequencies():
    np.testing.assert_array_equal(fft.fftfreq(5, 0.1).eval(), np.fft.fftfreq(5, 0.1))
    np.testing.assert_array_equal(fft.rfftfreq(6).eval(), np.fft.rfftfreq(6))


def test_second_derivatives():
    check_gradient(lambda v: T.grad((abs(fft.fft(v)) ** 3).sum(), v), [draw((4,))], tolerance=1e-4)
    check_gradient(
        lambda v: T.grad((abs(fft.real_fft(v)) ** 3).sum(), v), [draw((5,)).real.copy()], 1e-4
    )


def test_integers_and_small_floats():
    x = T.ivector()
    value = np.int32([1, 2, 3, -4])
    assert fft.fft(x).dtype == "complex128" and fft.fft(T.bvector()).dtype == "complex64"
    close(snug.function([x], fft.fft(x))(value), np.fft.fft(value))
    close(snug.function([x], fft.real_fft(x))(value), np.fft.rfft(value))


def test_convolution():
    a, b = T.dvectors("a", "b")
    n = a.shape[0] + b.shape[0] - 1
    product = fft.real_ifft(fft.real_fft(a, n) * fft.real_fft(b, n), n)
    x, y = np.arange(5.0), np.array([1.0, -1.0, 2.0])
    np.testing.assert_allclose(snug.function([a, b], product)(x, y), np.convolve(x, y), atol=1e-13)


def test_large_batches_on_threads():
    z = T.cmatrix()
    value = draw((700, 300), "complex64")
    for axis in (0, 1):
        got = snug.function([z], fft.fft(z, axis=axis))(value)
        one = snug.function([z], fft.fft(z, axis=axis), threads=1)(value)
        np.testing.assert_array_equal(got, one)


def test_errors():
    z = T.zvector()
    with pytest.raises(TypeError, match="takes real numbers"):
        fft.real_fft(z)
    with pytest.raises(ValueError, match="there is no norm 'orto'"):
        fft.fft(z, norm="orto")
    with pytest.raises(ValueError, match="no axis 1"):
        fft.fft(z, axis=1)
    with pytest.raises(ValueError, match="number of points is 0"):
        fft.fft(z, 0)
    with pytest.raises(ValueError, match="no points to transform"):
        snug.function([z], fft.fft(z))(np.zeros(0, "complex128"))


# ---- Theano's functions


def theano_rfft(x, norm):
    axes = tuple(range(1, x.ndim))
    y = np.fft.rfftn(x, axes=axes)
    if norm == "ortho":
        y = y / np.sqrt(np.prod(x.shape[1:]))
    return np.stack([y.real, y.imag], -1)


@pytest.mark.parametrize("norm", [None, "ortho", "no_norm"])
@pytest.mark.parametrize("shape", [(2, 5), (2, 6), (3, 4, 5), (2, 3, 4, 6), (0, 4)])
def test_theano_rfft(shape, norm):
    value = draw(shape).real.copy()
    x = variable("float64", len(shape))
    y = fft.rfft(x, norm)
    assert y.dtype == "float64" and y.ndim == len(shape) + 1
    for mode in MODES:
        close(snug.function([x], y, mode=mode)(value), theano_rfft(value, norm), "", 100)
    odd = shape[-1] % 2 == 1
    back = fft.irfft(y, norm, is_odd=odd)
    want = value * np.prod(shape[1:]) if norm == "no_norm" else value
    close(snug.function([x], back)(value), want, "", 200)
    if norm == "ortho":
        check_gradient(lambda v: fft.rfft(v, norm), [value])
        check_gradient(lambda v: fft.irfft(fft.rfft(v, norm) ** 2, norm, odd), [value], 1e-5)


def test_theano_errors():
    x = T.dmatrix()
    with pytest.raises(ValueError, match="invalid value 'forward' for norm"):
        fft.rfft(x, "forward")
    with pytest.raises(TypeError, match="at least 2 dimensions"):
        fft.rfft(T.dvector())
    with pytest.raises(ValueError, match="is_odd"):
        fft.irfft(T.dtensor3(), is_odd="yes")
    assert {"fft", "rfft", "irfft"} <= set(_core.op_docs())
