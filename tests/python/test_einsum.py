"""einsum and other products over chosen axes, against NumPy."""

import numpy as np
import pytest

import snug
import snug.tensor as T
from conformance import agree_gradient, ops_of, sample, variable

SIZES = dict(zip("abcdefghij", (2, 3, 4, 5, 2, 3, 4, 2, 3, 2)))

CASES = [
    "ab->ba",
    "ab->",
    "ab->a",
    "abc->ca",
    "aa->a",
    "aa->",
    "aab->ba",
    "aabb->ab",
    "a,a->",
    "a,a->a",
    "a,b->ab",
    "a,b->ba",
    "ab,bc->ac",
    "ab,bc->ca",
    "ab,cb->ac",
    "ab,ab->a",
    "ab,ab->b",
    "ab,b->a",
    "ab,b->ab",
    "abc,acd->abd",
    "abc,acd->dba",
    "abc,cb->a",
    "abc,bcd->ad",
    "abcd,ce->abed",
    "ab,c->abc",
    "ab,cd->dacb",
    "aab,bc->ac",
    "ab,bc,cd->ad",
    "ab,bc,cd,de->ae",
    "a,ab,b->",
    "ab,ac,ad->abcd",
    "ab,ab,ab->ab",
    "abc,bd,ce,df->aef",
    "a,,b->ab",
]


def operands_of(subscripts, dtype="float64"):
    shapes = [tuple(SIZES[c] for c in part) for part in subscripts.split("->")[0].split(",")]
    values = [sample(dtype, shape, special=False, key=k) for k, shape in enumerate(shapes)]
    return [variable(dtype, len(s), f"x{k}") for k, s in enumerate(shapes)], values


@pytest.mark.parametrize("subscripts", CASES)
def test_einsum(subscripts):
    inputs, values = operands_of(subscripts)
    y = T.einsum(subscripts, *inputs)
    f = snug.function(inputs, y)
    np.testing.assert_allclose(f(*values), np.einsum(subscripts, *values), rtol=1e-10, atol=1e-12)
    if sum(v.size for v in values) < 200:
        agree_gradient(next(iter(ops_of([y]))), y, inputs, values, 1e-5)


@pytest.mark.parametrize("subscripts", ["ab,bc", "ba", "aa", "ab,ba", "ca,b", "a b , b c"])
def test_without_an_arrow(subscripts):
    inputs, values = operands_of(subscripts.replace(" ", ""))
    got = snug.function(inputs, T.einsum(subscripts, *inputs))(*values)
    np.testing.assert_allclose(got, np.einsum(subscripts, *values))


@pytest.mark.parametrize(
    "subscripts, shapes",
    [
        ("...a,ab->...b", [(2, 5, 3), (3, 4)]),
        ("...a,...a->...", [(2, 3), (2, 3)]),
        ("a...,a...", [(2, 3), (2, 3)]),
        ("...ab->...ba", [(2, 3, 4)]),
        ("a...b->b...", [(2, 5, 3)]),
        ("...,a->a...", [(2, 3), (4,)]),
        ("...a,...->...a", [(2, 5, 3), (5,)]),
        ("...", [(2, 3)]),
    ],
)
def test_ellipsis(subscripts, shapes):
    values = [sample("float64", s, special=False, key=k) for k, s in enumerate(shapes)]
    inputs = [variable("float64", len(s)) for s in shapes]
    got = snug.function(inputs, T.einsum(subscripts, *inputs))(*values)
    np.testing.assert_allclose(got, np.einsum(subscripts, *values))


def test_axes_that_stretch():
    x, y = T.drow(), T.dmatrix()
    a, b = sample("float64", (1, 3), special=False), sample("float64", (4, 3), special=False)
    for subscripts in ("ab,ab->ab", "ab,ab->a", "ab,ab->", "ab,cb->ac"):
        got = snug.function([x, y], T.einsum(subscripts, x, y))(a, b)
        np.testing.assert_allclose(got, np.einsum(subscripts, a, b))


@pytest.mark.parametrize("dtype", ["int8", "int64", "float16", "float32"])
def test_dtypes(dtype):
    inputs, values = operands_of("ab,bc->ac", dtype)
    y = T.einsum("ab,bc->ac", *inputs)
    want = np.einsum("ab,bc->ac", *values)
    assert y.dtype == dtype == str(want.dtype)
    np.testing.assert_allclose(snug.function(inputs, y)(*values), want, rtol=1e-2)
    assert T.einsum("ab->a", inputs[0]).dtype == dtype


def test_order_is_cheap():
    """A chain of matrices with a thin end is contracted from that end."""
    shapes = [(200, 300), (300, 400), (400, 500), (500, 1)]
    xs = [T.TensorType("float32", (False, False), shape=s)() for s in shapes]
    y = T.einsum("ab,bc,cd,de->ae", *xs)
    sizes = [v.type.shape for v in snug._core.ancestors([y]) if v.owner is not None]
    assert not any(s == (200, 400) or s == (200, 500) or s == (300, 500) for s in sizes)


def test_sizes_differ():
    x, y = T.dmatrix(), T.dmatrix()
    f = snug.function([x, y], T.einsum("ab,bc->ac", x, y))
    with pytest.raises(ValueError):
        f(np.zeros((2, 3)), np.zeros((4, 2)))
    g = snug.function([x], T.einsum("aa->a", x))
    with pytest.raises(ValueError):
        g(np.zeros((2, 3)))


@pytest.mark.parametrize(
    "subscripts, text",
    [
        ("ab", "2 are given"),
        ("abc,ab", "operand 1 has 2 dimensions, 3 are named"),
        ("ab,bc->ad", "no operand has 'd'"),
        ("ab,bc->aa", "'a' is twice"),
        ("ab,b1->a", "'1' is no letter"),
        ("ab,b.c->a", "ellipsis"),
        ("...a,ab->a", "no '...'"),
        ("a,ab->b", "operand 1 has 2 dimensions, 1 are named"),
    ],
)
def test_errors(subscripts, text):
    with pytest.raises(ValueError, match=text):
        T.einsum(subscripts, T.dmatrix(), T.dmatrix())


def test_products():
    a, b = sample("float64", (3, 4), special=False), sample("float64", (5, 4), special=False, key=1)
    u, v = sample("float64", (6, 3), special=False), sample("float64", (6, 3), special=False, key=1)
    x, y, p, q, r = T.dmatrix(), T.dmatrix(), T.dmatrix("p"), T.dmatrix("q"), T.dvector()
    outputs = [
        T.outer(x, y),
        T.inner(x, y),
        T.inner(r, 2.0),
        T.vdot(p, q),
        T.cross(p, q),
        T.cross(p, r),
        T.cross(p.T, q.T, axis=0),
    ]
    got = snug.function([x, y, p, q, r], outputs)(a, b, u, v, v[0])
    want = [
        np.outer(a, b),
        np.inner(a, b),
        v[0] * 2,
        np.vdot(u, v),
        np.cross(u, v),
        np.cross(u, v[0]),
        np.cross(u.T, v.T, axis=0),
    ]
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w)
    agree_gradient("mul", T.cross(p, q), [p, q], [u, v])
    with pytest.raises(ValueError):
        snug.function([x], T.cross(x, x))(a)


def test_batched_tensordot():
    a = sample("float64", (2, 3, 4, 5), special=False)
    b = sample("float64", (2, 4, 5, 6), special=False, key=1)
    c = sample("float64", (2, 5, 3), special=False, key=2)
    x, y, z = T.dtensor4("x"), T.dtensor4("y"), T.dtensor3("z")
    outputs = [
        T.batched_tensordot(x, y),
        T.batched_tensordot(x, y, [[2, 3], [1, 2]]),
        T.batched_tensordot(x, z, [[3, 1], [1, 2]]),
        T.batched_tensordot(x, z, [3, 1]),
        T.batched_tensordot(z, z, [[1, 2], [1, 2]]),
    ]
    want = [
        np.einsum("nabc,nbcd->nad", a, b),
        np.einsum("nabc,nbcd->nad", a, b),
        np.einsum("nabc,nca->nb", a, c),
        np.einsum("nabc,ncd->nabd", a, c),
        np.einsum("nab,nab->n", c, c),
    ]
    for got, value in zip(snug.function([x, y, z], outputs)(a, b, c), want):
        np.testing.assert_allclose(got, value)
    agree_gradient("batched_dot", outputs[2], [x, z], [a, c])
    with pytest.raises(ValueError, match="batch"):
        T.batched_tensordot(x, z, [[0], [1]])
