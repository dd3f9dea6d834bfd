"""Layers, initialisers, losses and metrics against NumPy."""

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import nn

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def values(layer):
    return {name: variable.get_value() for name, variable in layer.state().items()}


def run(layer, x, **kwargs):
    v = T.TensorType(str(x.dtype), (False,) * x.ndim)("x")
    return snug.function([v], layer(v, **kwargs))(x)


def test_dense_and_names():
    model = nn.Sequential(nn.Dense(5, activation="tanh"), ("out", nn.Dense(3, bias=False)))
    model.build((None, 4))
    state = values(model)
    assert list(state) == ["0.weight", "0.bias", "out.weight"]
    assert [p.name for p in model.parameters()] == list(state)
    x = f32(7, 4)
    expected = np.tanh(x @ state["0.weight"] + state["0.bias"]) @ state["out.weight"]
    np.testing.assert_allclose(run(model, x), expected, rtol=1e-5, atol=1e-6)


def test_sizes_from_the_input_type():
    x = T.TensorType("float32", (False,) * 4, shape=(None, 2, 8, 8))("x")
    model = nn.Sequential(
        [nn.Conv2d(3, 3, pad="half"), nn.Activation("relu"), nn.Flatten(), nn.Dense(2)]
    )
    y = model(x)
    assert y.type.shape == (None, 2)
    assert model.state()["3.weight"].get_value().shape == (3 * 8 * 8, 2)
    assert snug.function([x], y)(f32(5, 2, 8, 8)).shape == (5, 2)


def test_size_given():
    layer = nn.Dense(3, 4)
    assert [p.get_value().shape for p in layer.parameters()] == [(4, 3), (3,)]


def test_parameters_are_recipes_and_follow_from_seed_and_name():
    def made(seed):
        return nn.Sequential(nn.Dense(6), nn.Dense(6)).build((None, 6), seed=seed)

    model = made(1)
    assert not model.parameters()[0].materialised
    a, b, c = values(model), values(made(1)), values(made(2))
    np.testing.assert_array_equal(a["0.weight"], b["0.weight"])
    assert not np.array_equal(a["0.weight"], c["0.weight"])
    assert not np.array_equal(a["0.weight"], a["1.weight"])


def test_sizes_of_parameters_are_fixed():
    weight = nn.Dense(3, 4).parameters()[0]
    weight.set_value(f32(4, 3))
    with pytest.raises(TypeError, match="has size 5 on axis 0, whose type says 4"):
        weight.set_value(f32(5, 3))


@pytest.mark.parametrize(
    "kwargs", [{}, {"stride": 2, "pad": 1}, {"groups": 2, "pad": (0, 1)}, {"dilation": 2}]
)
def test_conv2d_is_a_correlation(kwargs):
    layer = nn.Conv2d(4, 3, bias_start="normal", **kwargs)
    x = f32(2, 6, 9, 8)
    layer.build((None, 6, None, None))
    w, b = (p.get_value() for p in layer.parameters())
    pad = np.broadcast_to(kwargs.get("pad", 0), 2)
    stride, dilation, groups = (kwargs.get(k, 1) for k in ("stride", "dilation", "groups"))
    padded = np.pad(x, [(0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2]).astype("float64")
    reach = 2 * dilation + 1
    rows = range(0, padded.shape[2] - reach + 1, stride)
    columns = range(0, padded.shape[3] - reach + 1, stride)
    expected = np.empty((2, 4, len(rows), len(columns)))
    for o in range(4):
        part = slice(o // (4 // groups) * (6 // groups), (o // (4 // groups) + 1) * (6 // groups))
        for i, r in enumerate(rows):
            for j, c in enumerate(columns):
                window = padded[:, part, r : r + reach : dilation, c : c + reach : dilation]
                expected[:, o, i, j] = (window * w[o]).sum((1, 2, 3)) + b[o]
    np.testing.assert_allclose(run(layer, x), expected, rtol=1e-4, atol=1e-4)


def test_conv1d_and_conv3d():
    x = f32(2, 3, 9)
    layer = nn.Conv1d(4, 3, stride=2, pad=1).build((None, 3, None))
    w, b = (p.get_value() for p in layer.parameters())
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1)])
    expected = np.stack(
        [np.einsum("nck,ock->no", padded[:, :, i : i + 3], w) + b for i in range(0, 9, 2)], 2
    )
    np.testing.assert_allclose(run(layer, x), expected, rtol=1e-4, atol=1e-5)

    x = f32(1, 2, 4, 5, 6)
    layer = nn.Conv3d(3, (2, 1, 3)).build((None, 2, None, None, None))
    w, b = (p.get_value() for p in layer.parameters())
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 1, 3), (2, 3, 4))
    expected = np.einsum("ncijkabd,ocabd->noijk", windows, w) + b.reshape(1, 3, 1, 1, 1)
    np.testing.assert_allclose(run(layer, x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel, stride, pad", [(2, 2, 0), (3, 1, 1), (4, 2, 1)])
def test_conv_transpose2d(kernel, stride, pad):
    x = f32(2, 3, 4, 5)
    layer = nn.ConvTranspose2d(2, kernel, stride=stride, pad=pad).build((None, 3, None, None))
    w, b = (p.get_value() for p in layer.parameters())
    assert w.shape == (3, 2, kernel, kernel)
    full = np.zeros((2, 2, 3 * stride + kernel, 4 * stride + kernel))
    for r in range(4):
        for c in range(5):
            patch = np.einsum("nc,coij->noij", x[:, :, r, c], w)
            full[:, :, r * stride : r * stride + kernel, c * stride : c * stride + kernel] += patch
    expected = full[:, :, pad : full.shape[2] - pad, pad : full.shape[3] - pad]
    y = run(layer, x)
    np.testing.assert_allclose(y, expected + b.reshape(1, 2, 1, 1), rtol=1e-4, atol=1e-5)


def test_embedding_and_layer_norm():
    x = rng.integers(0, 11, (3, 4)).astype("int32")
    embedding = nn.Embedding(11, 5)
    table = embedding.parameters()[0].get_value()
    np.testing.assert_array_equal(run(embedding, x), table[x])

    norm = nn.LayerNorm()
    y = f32(3, 4, 6) * 3 + 1
    norm.build((None, None, 6))
    scale, shift = norm.parameters()
    scale.set_value(f32(6))
    shift.set_value(f32(6))
    expected = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
    expected = expected * scale.get_value() + shift.get_value()
    np.testing.assert_allclose(run(norm, y), expected, rtol=1e-4, atol=1e-5)


def lstm(x, w, u, b, units):
    h, c = np.zeros((2, len(x), units))
    out = []
    for t in range(x.shape[1]):
        i, f, g, o = np.split(x[:, t] @ w + b + h @ u, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return np.stack(out, 1)


def gru(x, w, u, b, bu, units):
    h = np.zeros((len(x), units))
    out = []
    for t in range(x.shape[1]):
        xr, xz, xn = np.split(x[:, t] @ w + b, 3, 1)
        hr, hz, hn = np.split(h @ u + bu, 3, 1)
        z = sigmoid(xz + hz)
        h = (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h
        out.append(h)
    return np.stack(out, 1)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("make, truth", [(nn.LSTM, lstm), (nn.GRU, gru)])
def test_recurrent(make, truth, backwards):
    x = f32(3, 5, 4)
    layer = make(6, sequences=True, backwards=backwards).build((None, None, 4))
    for p in layer.parameters():
        p.set_value(f32(*p.get_value().shape) * 0.5)
    expected = truth(x[:, ::-1] if backwards else x, *values(layer).values(), 6)
    expected = expected[:, ::-1] if backwards else expected
    np.testing.assert_allclose(run(layer, x), expected, rtol=1e-4, atol=1e-5)
    last = make(6, backwards=backwards).build((None, None, 4))
    for p, q in zip(last.parameters(), layer.parameters(), strict=True):
        p.set_value(q.get_value())
    np.testing.assert_allclose(
        run(last, x), expected[:, 0 if backwards else -1], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
def test_unrolled_is_the_loop(make, sequences, backwards):
    x = f32(3, 5, 4)
    how = {"sequences": sequences, "backwards": backwards}
    layer, unrolled = make(6, **how), make(6, unrolled=True, **how)
    v = T.tensor3("x")
    results = []
    for model in (layer.build((None, 5, 4)), unrolled.build((None, 5, 4))):
        y = model(v)
        results.append(snug.function([v], [y, *snug.grad(y.sum(), model.parameters())])(x))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="the number of times is not known"):
        make(6, unrolled=True, features=4, **how)(v)
    with pytest.raises(ValueError):
        run(unrolled, f32(3, 6, 4))


def attention(x, state, heads, causal):
    """In float64, head by head."""
    features = x.shape[-1]
    size = features // heads
    all_parts = x @ state["weight"] + state.get("bias", 0)
    query, key, value = np.split(all_parts, 3, axis=-1)
    out = np.zeros_like(query)
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        scores = query[..., part] @ key[..., part].swapaxes(1, 2) / np.sqrt(size)
        if causal:
            scores += np.where(np.tri(x.shape[1]) > 0, 0, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        out[..., part] = p / p.sum(-1, keepdims=True) @ value[..., part]
    return out @ state["out_weight"] + state.get("out_bias", 0)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_attention(heads, causal, bias):
    layer = nn.Attention(heads, causal=causal, bias=bias).build((None, None, 6))
    assert [p.name for p in layer.parameters()] == ["weight", "out_weight"] + [
        "bias",
        "out_bias",
    ] * bias
    for p in layer.parameters():
        p.set_value(f32(*p.get_value().shape))
    x = f32(2, 5, 6)
    expected = attention(x.astype("float64"), values(layer), heads, causal)
    np.testing.assert_allclose(run(layer, x), expected, rtol=1e-4, atol=1e-4)
    if causal:  # what comes later changes nothing
        later = x.copy()
        later[:, 3:] = 0
        np.testing.assert_array_equal(run(layer, later)[:, :3], run(layer, x)[:, :3])


def test_attention_by_finite_differences():
    with snug.config.change_flags(floatX="float64"):
        layer = nn.Attention(2, causal=True).build((None, None, 4))
        v = T.dtensor3("x")
        loss = T.sqr(layer(v)).sum()
        variables = [v, *layer.parameters()]
        gradients = snug.function([v], snug.grad(loss, variables))
        f = snug.function([v], loss)
        x, step = rng.standard_normal((2, 3, 4)), 1e-6
        g = gradients(x)
        for k in range(x.size):
            d = np.zeros(x.size)
            d[k] = step
            d = d.reshape(x.shape)
            assert abs((f(x + d) - f(x - d)) / (2 * step) - g[0].flat[k]) < 1e-6
        weight = layer.parameters()[0]
        w = weight.get_value()
        for k in range(0, w.size, 5):
            ends = []
            for sign in (1, -1):
                other = w.copy()
                other.flat[k] += sign * step
                weight.set_value(other)
                ends.append(f(x))
            assert abs((ends[0] - ends[1]) / (2 * step) - g[1].flat[k]) < 1e-6


@pytest.mark.parametrize("factor", [2, (1, 3), (3, 2)])
def test_upsample(factor):
    rows, columns = (factor, factor) if isinstance(factor, int) else factor
    x = f32(2, 3, 4, 5)
    expected = x.repeat(rows, 2).repeat(columns, 3)
    np.testing.assert_array_equal(run(nn.Upsample(factor), x), expected)
    v = T.tensor4("x")
    weights = f32(*expected.shape)
    gradient = snug.function([v], snug.grad((nn.Upsample(factor)(v) * weights).sum(), v))(x)
    summed = weights.reshape(2, 3, 4, rows, 5, columns).sum((3, 5))
    np.testing.assert_allclose(gradient, summed, rtol=1e-5, atol=1e-5)
    if factor == 2:
        sequence = f32(2, 3, 4)
        np.testing.assert_array_equal(run(nn.Upsample(2), sequence), sequence.repeat(2, 2))


def test_forget_gates_start_open():
    bias = nn.LSTM(2, features=3).state()["bias"].get_value()
    np.testing.assert_array_equal(bias, [0, 0, 1, 1, 0, 0, 0, 0])


def test_containers():
    body = nn.Dense(4, 4)
    w, b = (p.get_value() for p in body.parameters())
    x = f32(3, 4)
    np.testing.assert_allclose(
        run(nn.Residual(body, activation="relu"), x), np.maximum(x @ w + b + x, 0), rtol=1e-5
    )
    np.testing.assert_allclose(run(nn.Skip(body), x), np.hstack([x, x @ w + b]), rtol=1e-5)
    both = nn.Concat(body, nn.Activation("tanh"), axis=1)
    np.testing.assert_allclose(run(both, x), np.hstack([x @ w + b, np.tanh(x)]), rtol=1e-5)
    shortcut = nn.Residual(nn.Dense(2), nn.Dense(2, bias=False)).build((None, 4))
    assert list(shortcut.state()) == ["body.weight", "body.bias", "shortcut.weight"]


def test_a_layer_that_occurs_twice_counts_once():
    shared = nn.Dense(4, 4)
    assert len(nn.Sequential(shared, shared).parameters()) == 2


def test_functions_are_layers():
    inside = nn.Dense(4)

    def block(x):
        return T.tanh(inside(x)) * 2

    model = nn.Sequential(block, nn.Dropout(0.5), lambda x: x + 1).build((None, 3))
    assert list(model.state()) == ["0.0.weight", "0.0.bias"]
    w, b = (p.get_value() for p in model.parameters())
    x = f32(5, 3)
    np.testing.assert_allclose(run(model, x), np.tanh(x @ w + b) * 2 + 1, rtol=1e-5)
    with pytest.raises(ValueError, match="make layers once"):
        fresh = nn.Sequential(lambda x: nn.Dense(2)(x))
        fresh.build((None, 3))
        fresh.build((None, 3))


def test_training_reaches_layers_called_by_functions():
    drop = nn.Dropout(0.5)
    x = T.matrix("x")
    model = nn.Sequential(lambda x: drop(x))
    ones = np.ones((40, 50), "float32")
    np.testing.assert_array_equal(snug.function([x], model(x))(ones), ones)
    dropped = snug.function([x], model(x, training=True))(ones)
    assert set(np.unique(dropped)) == {0, 2}
    assert abs(dropped.mean() - 1) < 0.1


@pytest.mark.parametrize("name", nn.activation_names())
def test_activations(name):
    x = np.linspace(-7, 7, 24, dtype="float32").reshape(4, 6)
    y = run(nn.Activation(name), x)
    e = np.exp(x.astype("float64"))
    soft = e / e.sum(1, keepdims=True)
    erf = np.vectorize(__import__("math").erf)
    expected = {
        "elu": np.where(x > 0, x, e - 1),
        "gelu": 0.5 * x * (1 + erf(x / np.sqrt(2))),
        "hard_sigmoid": np.clip(0.2 * x + 0.5, 0, 1),
        "leaky_relu": np.where(x > 0, x, 0.01 * x),
        "linear": x,
        "log_softmax": np.log(soft),
        "relu": np.maximum(x, 0),
        "relu6": np.clip(x, 0, 6),
        "selu": 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (e - 1)),
        "sigmoid": sigmoid(x),
        "softmax": soft,
        "softplus": np.log1p(e),
        "softsign": x / (1 + abs(x)),
        "swish": x * sigmoid(x),
        "tanh": np.tanh(x),
    }[name]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_initialisers():
    def start(weight, inputs=400, units=300):
        return nn.Dense(units, inputs, weight=weight).parameters()[0].get_value()

    deviations = {
        "glorot_uniform": np.sqrt(2 / 700),
        "glorot_normal": np.sqrt(2 / 700),
        "he_uniform": np.sqrt(2 / 400),
        "he_normal": np.sqrt(2 / 400),
        "lecun_uniform": np.sqrt(1 / 400),
        "lecun_normal": np.sqrt(1 / 400),
    }
    for name, deviation in deviations.items():
        w = start(name)
        assert abs(w.std() / deviation - 1) < 0.02, name
        assert abs(w.mean()) < 4 * deviation / np.sqrt(w.size), name
        if name.endswith("uniform"):
            assert abs(w).max() <= deviation * np.sqrt(3)
    for shape in [(400, 300), (30, 40)]:
        w = start(nn.init.orthogonal(2.0), *shape)
        product = w.T @ w if shape[0] > shape[1] else w @ w.T
        np.testing.assert_allclose(product, 4 * np.eye(min(shape)), atol=1e-5)
    np.testing.assert_array_equal(start("ones", 2, 2), np.ones((2, 2)))
    np.testing.assert_array_equal(start(nn.init.constant(3), 2, 2), np.full((2, 2), 3))
    w = start(nn.init.uniform(1, 2))
    assert 1 <= w.min() < 1.01 and 1.99 < w.max() <= 2
    w = start(nn.init.normal(5, 0.1))
    assert abs(w.mean() - 5) < 0.01 and abs(w.std() - 0.1) < 0.01
    given = f32(3, 2)
    np.testing.assert_array_equal(start(given, 3, 2), given)


def test_fans_of_convolutions():
    w = nn.Conv2d(64, 3, channels=32).parameters()[0].get_value()
    assert abs(w.std() / np.sqrt(2 / (32 * 9)) - 1) < 0.02


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_cross_entropy():
    x, y = f32(6, 4) * 30, rng.integers(0, 4, 6)
    each = -log_softmax(x.astype("float64"))[np.arange(6), y]
    hot = np.eye(4, dtype="float32")[y]
    soft = np.float32(0.8) * hot + np.float32(0.05)
    for targets, expected in [(y, each), (hot, each)]:
        for reduction, reduce in [("mean", np.mean), ("sum", np.sum), ("none", np.copy)]:
            loss = nn.cross_entropy(x, targets, reduction).eval()
            np.testing.assert_allclose(loss, reduce(expected), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        nn.cross_entropy(x, soft).eval(), -(soft * log_softmax(x)).sum(-1).mean(), rtol=1e-5
    )


def test_cross_entropy_of_pixels():
    x, y = f32(2, 3, 4, 5), rng.integers(0, 3, (2, 4, 5))
    each = -np.take_along_axis(log_softmax(np.moveaxis(x, 1, -1)), y[..., None], -1)[..., 0]
    np.testing.assert_allclose(nn.cross_entropy(x, y, axis=1).eval(), each.mean(), rtol=1e-5)
    none = nn.cross_entropy(x, y, "none", axis=1).eval()
    np.testing.assert_allclose(none, each, rtol=1e-4)


def test_elementwise_losses():
    p, y = f32(5, 3) * 3, f32(5, 3)
    d = abs(p - y).astype("float64")
    hot = (y > 0).astype("float32")
    signs = 2 * hot - 1
    expected = {
        nn.mse(p, y): (d * d).mean(),
        nn.mae(p, y): d.mean(),
        nn.mae(p, y, "sum"): d.sum(),
        nn.huber(p, y, 1.5): np.where(d <= 1.5, d * d / 2, 1.5 * (d - 0.75)).mean(),
        nn.hinge(p, signs): np.maximum(0, 1 - p * signs).mean(),
        nn.binary_cross_entropy(p, hot): (
            np.log1p(np.exp(-abs(p))) + np.maximum(p, 0) - p * hot
        ).mean(),
    }
    for loss, value in expected.items():
        np.testing.assert_allclose(loss.eval(), value, rtol=1e-5)
    assert np.isfinite(nn.binary_cross_entropy(np.float32([1000.0]), np.float32([0.0])).eval())


def test_metrics():
    x, y = f32(50, 7), rng.integers(0, 7, 50)
    right = x.argmax(1) == y
    assert nn.accuracy(x, y).eval() == np.float32(right.mean())
    assert nn.accuracy(x, np.eye(7, dtype="float32")[y]).eval() == np.float32(right.mean())
    np.testing.assert_allclose(nn.mean_error(x, y).eval(), 1 - right.mean(), rtol=1e-6)
    for k in (1, 3, 7):
        best = np.argsort(-x, 1)[:, :k]
        expected = np.float32((best == y[:, None]).any(1).mean())
        assert nn.top_k_accuracy(x, y, k).eval() == expected


def test_gradients_exist_for_all_parameters():
    x = T.TensorType("float32", (False,) * 4, shape=(None, 2, 8, 8))("x")
    y = T.ivector("y")
    model = nn.Sequential(
        nn.Conv2d(4, 3, pad="half", activation="relu"),
        nn.Reshape((8, -1)),
        nn.LayerNorm(),
        nn.LSTM(5, sequences=True),
        nn.GRU(6),
        nn.Dropout(0.2),
        nn.Dense(3),
    )
    loss = nn.cross_entropy(model(x, training=True), y)
    parameters = model.parameters()
    grads = snug.grad(loss, parameters)
    outputs = snug.function([x, y], grads)(f32(4, 2, 8, 8), np.arange(4, dtype="int32") % 3)
    for p, g in zip(parameters, outputs, strict=True):
        assert g.shape == p.get_value().shape
        assert np.isfinite(g).all() and abs(g).max() > 0, p.name


def test_errors_name_the_layer():
    model = nn.Sequential(nn.Dense(3), ("head", nn.Dense(2, 5)))
    with pytest.raises(ValueError, match=r"layer head: Dense\(2\)"):
        model.build((None, 4))
    with pytest.raises(ValueError, match="call build with the sizes"):
        nn.Dense(3)(T.matrix("x"))
    with pytest.raises(ValueError, match="layer 0"):
        nn.Sequential(nn.Dense(3)).parameters()
    with pytest.raises(ValueError, match="did you mean 'sigmoid'"):
        nn.Activation("sigmiod")
    with pytest.raises(ValueError, match="did you mean 'he_normal'"):
        nn.Dense(3, weight="he_norml")
    with pytest.raises(TypeError, match="a int is no layer"):
        nn.Sequential(1)
    with pytest.raises(ValueError, match="two layers are named 'a'"):
        nn.Sequential(("a", nn.Flatten()), ("a", nn.Flatten()))
    with pytest.raises(ValueError, match="4 filters are no multiple of 3"):
        nn.Conv2d(4, 3, groups=3)
    with pytest.raises(TypeError, match="targets are class numbers"):
        nn.cross_entropy(f32(2, 3), f32(2))
