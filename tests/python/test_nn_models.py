"""Pooling, batch normalisation, reference models, summaries and pruning."""

import json
import math

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import nn

rng = np.random.default_rng(1)


def f32(*shape):
    return rng.standard_normal(shape).astype("float32")


def run(layer, x, **kwargs):
    v = T.TensorType("float32", (False,) * x.ndim)("x")
    return snug.function([v], layer(v, **kwargs))(x)


def test_pools():
    x = f32(2, 3, 8, 6)
    windows = x.reshape(2, 3, 4, 2, 3, 2)
    np.testing.assert_array_equal(run(nn.MaxPool(2), x), windows.max((3, 5)))
    np.testing.assert_allclose(run(nn.AveragePool(2), x), windows.mean((3, 5)), rtol=1e-5)
    np.testing.assert_array_equal(run(nn.GlobalMaxPool(), x), x.max((2, 3)))
    np.testing.assert_allclose(run(nn.GlobalAveragePool(), x), x.mean((2, 3)), rtol=1e-4, atol=1e-6)
    y = f32(2, 3, 8)
    np.testing.assert_array_equal(run(nn.MaxPool(4), y), y.reshape(2, 3, 2, 4).max(3))
    assert run(nn.MaxPool(3, stride=2, pad=1), x).shape == (2, 3, 4, 3)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(7, 3), (4, 3, 5, 6)])
def test_batch_norm(shape, affine):
    x = f32(*shape) * 3 + 2
    axes = (0, *range(2, len(shape)))
    layer = nn.BatchNorm(momentum=0.25, affine=affine).build((None, *shape[1:]))
    mean, var = layer.state()["running_mean"], layer.state()["running_var"]
    assert len(layer.parameters()) == (2 if affine else 0)
    assert len(layer.parameters(trainable=False)) == (4 if affine else 2)
    scale, shift = np.ones(3, "float32"), np.zeros(3, "float32")
    if affine:
        scale, shift = f32(3), f32(3)
        layer.parameters()[0].set_value(scale)
        layer.parameters()[1].set_value(shift)
    along = (1, 3) + (1,) * (len(shape) - 2)

    def normed(m, v):
        y = (x - m.reshape(along)) / np.sqrt(v.reshape(along) + 1e-5)
        return y * scale.reshape(along) + shift.reshape(along)

    v = T.TensorType("float32", (False,) * len(shape))("x")
    train, use = snug.function([v], layer(v, training=True)), snug.function([v], layer(v))
    m0, v0 = mean.get_value(), var.get_value()
    np.testing.assert_allclose(use(x), normed(m0, v0), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(mean.get_value(), m0)
    np.testing.assert_allclose(train(x), normed(x.mean(axes), x.var(axes)), rtol=1e-3, atol=1e-4)
    m1 = 0.75 * m0 + 0.25 * x.mean(axes)
    v1 = 0.75 * v0 + 0.25 * x.var(axes, ddof=1)
    np.testing.assert_allclose(mean.get_value(), m1, rtol=1e-4)
    np.testing.assert_allclose(var.get_value(), v1, rtol=1e-4)
    np.testing.assert_allclose(use(x), normed(m1, v1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(mean.get_value(), mean.get_value())


def test_statistics_of_several_layers_are_updated_in_a_training_step():
    x, y = T.matrix("x"), T.ivector("y")
    model = nn.Sequential(
        nn.Dense(8), nn.BatchNorm(), nn.Activation("relu"), nn.Dense(3), nn.BatchNorm()
    ).build((None, 4))
    loss = nn.cross_entropy(model(x, training=True), y)
    parameters = model.parameters()
    updates = [(p, p - 0.1 * g) for p, g in zip(parameters, snug.grad(loss, parameters))]
    train = snug.function([x, y], loss, updates=updates)
    before = {k: v.get_value() for k, v in model.state().items()}
    images, labels = f32(64, 4), rng.integers(0, 3, 64).astype("int32")
    first = train(images, labels)
    for _ in range(20):
        last = train(images, labels)
    assert last < first
    for name, variable in model.state().items():
        if not name.endswith(("0.bias", "3.bias")):  # batch norm takes them out again
            assert abs(variable.get_value() - before[name]).max() > 1e-6, name


def test_inference_has_no_random_numbers_updates_or_kept_activations():
    def block():
        return nn.Sequential(
            nn.Conv2d(8, 3, pad="half"), nn.BatchNorm(), nn.Activation("relu"), nn.Dropout(0.5)
        )

    def network(depth):
        blocks = [block() for _ in range(depth)]
        return nn.Sequential(*blocks, nn.GlobalAveragePool(), nn.Dense(3)).build((None, 8, 16, 16))

    x, y = T.tensor4("x"), T.ivector("y")
    model, half = network(6), network(3)
    use = snug.function([x], model(x))
    assert "random" not in use.explain()
    images = f32(4, 8, 16, 16)
    np.testing.assert_array_equal(use(images), use(images))

    loss = nn.cross_entropy(model(x, training=True), y)
    parameters = model.parameters()
    train = snug.function([x, y], loss, updates=zip(parameters, snug.grad(loss, parameters)))
    assert "random" in train.explain()
    shape = (32, 8, 16, 16)
    activation = 4 * int(np.prod(shape))
    arena = use.memory(x=shape).arena
    assert abs(arena - snug.function([x], half(x)).memory(x=shape).arena) < activation / 10
    assert train.memory(x=shape, y=(32,)).arena > arena + 3 * activation


PUBLISHED = {  # trainable parameters; of the smaller ones computed by hand
    "autoencoder": 2_837_314,
    "fcn8": 134_456_985,
    "logistic": 7_850,
    "lstm": 4 * 128 * (28 + 128 + 1) + 1_290,
    "segnet": 3_702_419,
    "transformer": 85_054_464 + 2 * 768 + 7_690,  # the blocks of BERT base, a norm, the classes
    "lenet": 61_706,
    "mlp": 669_706,
    "mobilenet": 4_231_976,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "unet": 31_030_658,
    "vgg11": 132_863_336,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_numbers_of_parameters(name):
    model = nn.make_model(name)
    shapes = [p.current_shape for p in model.parameters()]
    assert sum(int(np.prod(s)) for s in shapes) == PUBLISHED[name]
    if name != "lstm":  # orthogonal weights are computed
        assert not any(p.materialised for p in model.parameters())


def test_numbers_of_models_with_statistics():
    assert nn.summary(nn.make_model("mobilenet"), (1, 3, 224, 224)).total["parameters"] == 4_253_864


def test_flops_of_known_models():
    # Published multiply-adds, in units of 10^9.
    for name, published in [("vgg16", 15.47), ("resnet50", 4.09), ("mobilenet", 0.569)]:
        total = nn.summary(nn.make_model(name), (1, 3, 224, 224)).total
        assert abs(total["flops"] / 2e9 / published - 1) < 0.01, name


LARGE = ("fcn8", "mobilenet", "resnet50", "segnet", "unet", "vgg11", "vgg16", "vgg19")
SIZES = {
    **{"autoencoder": (1, 6, 6), "lenet": (1, 28, 28), "logistic": (1, 8, 8), "lstm": (5, 6)},
    **{"mlp": (1, 8, 8), "transformer": (4, 24), "vgg-small": (1, 28, 28)},
}


def loss_of(name, model, x):
    """The inputs and the loss of a training step."""
    scores = model(x, training=True)
    if name == "autoencoder":
        return [x], nn.binary_cross_entropy(scores, x.flatten(2))
    y = T.itensor3("y") if scores.ndim == 4 else T.ivector("y")
    return [x, y], nn.cross_entropy(scores, y, axis=1)


@pytest.mark.parametrize("name", nn.model_names())
def test_models_run_and_have_gradients(name):
    size = SIZES.get(name, (3, 32, 32))
    classes = 0 if name == "autoencoder" else 4
    model = nn.make_model(name, size, classes=classes, seed=3)
    x = T.TensorType("float32", (False,) * (1 + len(size)))("x")
    inputs, loss = loss_of(name, model, x)
    parameters = model.parameters()
    grads = snug.grad(loss, parameters)
    assert len(grads) == len(parameters)
    if name in LARGE:  # too large for a quick run
        return
    batch = [f32(8, *size), np.arange(8, dtype="int32") % 4][: len(inputs)]
    loss, *grads = snug.function(inputs, [loss, *grads])(*batch)
    assert abs(loss - np.log(4)) < 1
    for p, g in zip(parameters, grads, strict=True):
        assert np.isfinite(g).all() and g.shape == p.current_shape and abs(g).max() > 0, p.name
    outputs = int(np.prod(size)) if name == "autoencoder" else 4
    assert snug.function([x], model(x))(batch[0]).shape == (8, outputs)


@pytest.mark.parametrize("name", ["fcn8", "segnet", "unet"])
def test_models_of_pixels(name):
    summary = nn.summary(nn.make_model(name, (3, 64, 96), classes=5), (2, 3, 64, 96))
    assert summary.total["output"] == (2, 5, 64, 96)


def test_transformer_by_numpy():
    model = nn.make_model("transformer", (5, 24), classes=3)
    state = {k: v.get_value().astype("float64") for k, v in model.state().items()}

    def norm(x, name):
        deviation = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        standard = (x - x.mean(-1, keepdims=True)) / deviation
        return standard * state[name + ".weight"] + state[name + ".bias"]

    def dense(x, name):
        return x @ state[name + ".weight"] + state[name + ".bias"]

    def gelu(x):
        return 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))

    def attend(x, name):
        q, k, v = (
            part.reshape(*x.shape[:2], 12, 2).swapaxes(1, 2)
            for part in np.split(dense(x, name), 3, axis=-1)
        )
        p = np.exp(q @ k.swapaxes(2, 3) / np.sqrt(2))
        taken = (p / p.sum(-1, keepdims=True)) @ v
        return dense(taken.swapaxes(1, 2).reshape(x.shape), name + ".out")

    for k in list(state):  # as the names of dense layers
        for kind in ("weight", "bias"):
            if k.endswith("out_" + kind):
                state[k.replace("out_" + kind, "out." + kind)] = state[k]
    value = f32(2, 5, 24)
    x = value.astype("float64")
    for block in (f"blocks.{k}" for k in range(12)):
        x = x + attend(norm(x, f"{block}.attention.body.0"), f"{block}.attention.body.1")
        inner = gelu(dense(norm(x, f"{block}.dense.body.0"), f"{block}.dense.body.1"))
        x = x + dense(inner, f"{block}.dense.body.2")
    expected = dense(norm(x, "blocks.12").mean(1), "classifier")
    v = T.tensor3("x")
    got = snug.function([v], model(v))(value)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_an_autoencoder_has_no_classes():
    with pytest.raises(ValueError, match="gives its input again"):
        nn.make_model("autoencoder", classes=3)


def test_unet_gives_classes_of_pixels():
    level = nn.Sequential(
        nn.Conv2d(4, 3, pad="half", activation="relu"),
        nn.Skip(nn.Sequential(nn.MaxPool(2), nn.Conv2d(6, 1), nn.ConvTranspose2d(4, 2, stride=2))),
        nn.Conv2d(3, 1),
    ).build((None, 2, None, None))
    x, y = T.tensor4("x"), T.itensor3("y")
    loss = nn.cross_entropy(level(x), y, axis=1)
    grads = snug.function([x, y], snug.grad(loss, level.parameters()))
    grads = grads(f32(2, 2, 8, 6), rng.integers(0, 3, (2, 8, 6)).astype("int32"))
    for p, g in zip(level.parameters(), grads, strict=True):
        assert g.shape == p.current_shape and np.isfinite(g).all() and abs(g).max() > 0, p.name


def test_the_activation_that_did_not_fit():
    rows = nn.summary(nn.make_model("vgg-art"), (100, 3, 116, 116)).layers
    assert 86118400 in [row["activation_bytes"] for row in rows]


def test_summary():
    model = nn.Sequential(
        ("conv", nn.Conv2d(4, 3, pad="half")), nn.BatchNorm(), nn.Flatten(), nn.Dense(10)
    )
    summary = nn.summary(model, (2, 3, 8, 8))
    assert [row["name"] for row in summary.layers] == ["conv", "1", "2", "3"]
    conv, norm, flat, dense = summary.layers
    assert conv["output"] == (2, 4, 8, 8) and dense["output"] == (2, 10)
    assert conv["parameters"] == 4 * 3 * 9 + 4 and norm["parameters"] == 16
    assert norm["trainable"] == 8 and flat["parameters"] == 0
    assert conv["flops"] == 2 * 2 * 4 * 8 * 8 * 27 and dense["flops"] == 2 * 2 * 256 * 10
    assert conv["parameter_bytes"] == 4 * conv["parameters"]
    assert conv["activation_bytes"] == 4 * 2 * 4 * 64
    total = summary.total
    for key in ("parameters", "trainable", "flops", "parameter_bytes", "activation_bytes"):
        assert total[key] == sum(row[key] for row in summary.layers)
    data = json.loads(summary.json())
    assert data["input"] == [2, 3, 8, 8] and len(data["layers"]) == 4
    lines = str(summary).splitlines()
    assert "Conv2d(4, 3x3)" in str(summary) and len(lines) == 10
    with pytest.raises(ValueError, match="give the size of a batch"):
        nn.summary(model, (None, 3, 8, 8))


def test_flops_of_recurrent_layers():
    total = nn.summary(nn.LSTM(5), (2, 7, 3)).total
    assert total["flops"] == 2 * 2 * 7 * (3 + 5) * 20


def test_unknown_models_are_named():
    with pytest.raises(ValueError, match="did you mean 'resnet18'"):
        nn.make_model("resnet_18")


def test_pruning_stays_through_training():
    x, y = T.matrix("x"), T.ivector("y")
    model = nn.Sequential(nn.Dense(20, activation="relu"), nn.Dense(3)).build((None, 10))
    before = model.state()["0.weight"].get_value()
    report = nn.prune(model, 0.75)
    zeros = [(name, zeros) for name, _, zeros in report.rows]
    assert zeros == [("0.weight", 150), ("1.weight", 45)]
    assert report.sparsity == 0.75
    after = model.state()["0.weight"].get_value()
    gone = after == 0
    assert abs(before[gone]).max() <= abs(before[~gone]).min()
    np.testing.assert_array_equal(after[~gone], before[~gone])

    loss = nn.cross_entropy(model(x), y)
    parameters = model.parameters()
    updates = [(p, p - 0.1 * g) for p, g in zip(parameters, snug.grad(loss, parameters))]
    train = snug.function([x, y], loss, updates=nn.masked(updates, model))
    images, labels = f32(32, 10), rng.integers(0, 3, 32).astype("int32")
    losses = [train(images, labels) for _ in range(20)]
    assert losses[-1] < losses[0]
    weight = model.state()["0.weight"].get_value()
    assert (weight[gone] == 0).all() and not np.array_equal(weight, after)
    # The same function goes on with fewer weights.
    nn.prune(model, 0.9)
    train(images, labels)
    assert nn.sparsity(model).rows[0] == ("0.weight", 200, 180)
    assert "90.0%" in str(nn.sparsity(model))


def test_pruning_together_looks_at_all_weights():
    model = nn.Sequential(nn.Dense(4), nn.Dense(4)).build((None, 4))
    small, large = model.parameters()[0], model.parameters()[2]
    small.set_value(np.full((4, 4), 0.1, "float32"))
    large.set_value(np.full((4, 4), 9, "float32"))
    assert nn.prune(model, 0.25, together=True).rows == [("0.weight", 16, 8), ("1.weight", 16, 0)]
    with pytest.raises(ValueError, match="fraction is 2"):
        nn.prune(model, 2)
