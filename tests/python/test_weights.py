"""Weights of rows, of labels and of classes: every mean of `fit` and `evaluate` is a weighted one,
sum(w * l) / sum(w), as a loop in NumPy has it."""

import numpy as np
import pytest

import snug
from snug import nn

BATCH = 16


def rows_of(n=50, seed=0):
    """The last batch is ragged, and one batch weighs much more than the others."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4)).astype("float32")
    y = rng.integers(0, 3, n)
    w = rng.uniform(0, 3, n).astype("float32")
    w[BATCH : BATCH + 5] *= 10
    w[:3] = 0
    return x, y, w


def classifier():
    return nn.Sequential(nn.Dense(3)).build((None, 4))


def values(model):
    return {name: v.get_value() for name, v in model.state().items()}


def quiet(model, data, **options):
    options = {"batch": BATCH, "shuffle": False, "optimizer": "sgd", "rate": 0.5} | options
    return nn.fit(model, data, progress="silent", **options)


class ByHand:
    """A linear classifier trained by SGD, in float64."""

    def __init__(self):
        start = values(classifier())
        self.weight, self.bias = (start[f"0.{n}"].astype("float64") for n in ("weight", "bias"))

    def forward(self, x, y):
        z = x.astype("float64") @ self.weight + self.bias
        z -= z.max(1, keepdims=True)
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        rows = np.arange(len(y))
        derivative = p.copy()
        derivative[rows, y] -= 1
        return -np.log(p[rows, y]), p.argmax(1) == y, derivative

    def evaluate(self, x, y, w):
        losses, hits, _ = self.forward(x, y)
        return (w * losses).sum() / w.sum(), (w * hits).sum() / w.sum()

    def epoch(self, x, y, w, rate=0.5, accumulate=1):
        """The weighted means over all rows, and steps by the weighted mean of `accumulate` batches,
        whose gradients `self.held` has from one epoch to the next."""
        self.held = getattr(self, "held", [])
        loss = hit = 0.0
        for k in range(0, len(x), BATCH):
            part = slice(k, k + BATCH)
            losses, hits, d = self.forward(x[part], y[part])
            weights = w[part].astype("float64")
            loss += (weights * losses).sum()
            hit += (weights * hits).sum()
            d *= weights[:, None]
            self.held.append((x[part].T @ d, d.sum(0), weights.sum()))
            if len(self.held) == accumulate:
                by_weight, by_bias, total = (sum(parts) for parts in zip(*self.held))
                self.weight -= rate * by_weight / total
                self.bias -= rate * by_bias / total
                self.held = []
        return loss / w.sum(), hit / w.sum()


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"micro_batches": 3}, {"accumulate": 2}, {"accumulate": 3, "micro_batches": 2}],
)
def test_equals_a_loop_in_numpy(options, weighted):
    x, y, w = rows_of()
    held_out = rows_of(21, 1)
    data, w = ((x, y, w), w) if weighted else ((x, y), np.ones(len(x), "float32"))
    model, by_hand = classifier(), ByHand()
    metrics = ["accuracy", "mean_error"]
    history = quiet(model, data, epochs=3, metrics=metrics, validation=held_out, **options)
    for k in range(3):
        loss, accuracy = by_hand.epoch(x, y, w, accumulate=options.get("accumulate", 1))
        assert history["loss"][k] == pytest.approx(loss, rel=1e-5)
        assert history["accuracy"][k] == pytest.approx(accuracy, rel=1e-5)
        assert history["mean_error"][k] == pytest.approx(1 - accuracy, rel=1e-5)
        loss, accuracy = by_hand.evaluate(*held_out)  # has weights in any case
        assert history["validation_loss"][k] == pytest.approx(loss, rel=1e-5)
        assert history["validation_accuracy"][k] == pytest.approx(accuracy, rel=1e-5)
    np.testing.assert_allclose(values(model)["0.weight"], by_hand.weight, atol=1e-5)
    np.testing.assert_allclose(values(model)["0.bias"], by_hand.bias, atol=1e-5)


def test_evaluate_and_loaders_with_weights(tmp_path):
    x, y, w = rows_of()
    wanted = ByHand().evaluate(x, y, w)
    np.savez(tmp_path / "data.npz", x=x, y=y, w=w)
    source = snug.data.npz(tmp_path / "data.npz", "x", "y", "w")
    loader = snug.data.Loader(source, batch=7, seed=3)
    for data in ((x, y, w), (x, y, w[:, None]), (x, y, w.astype("float64")), source, loader):
        found = nn.evaluate(classifier(), data, metrics=["accuracy"], batch=7)
        np.testing.assert_allclose([found["loss"], found["accuracy"]], wanted, rtol=1e-5)
    masked = nn.evaluate(classifier(), (x, y, w > 1), metrics=["accuracy"])
    plain = nn.evaluate(classifier(), (x[w > 1], y[w > 1]), metrics=["accuracy"])
    assert masked == pytest.approx(plain, rel=1e-6)
    model, other = classifier(), classifier()
    quiet(model, (x, y, w), epochs=2)
    quiet(other, snug.data.Loader(source, batch=BATCH, shuffle=False), epochs=2)
    for name, value in values(model).items():
        np.testing.assert_array_equal(values(other)[name], value)


def test_what_weights_mean():
    """2 is twice, 0 is not there, all the same is none."""
    x, y, _ = rows_of(BATCH)
    twice = np.arange(BATCH) % 3
    models = [classifier() for _ in range(5)]
    repeated = np.repeat(np.arange(BATCH), twice)
    quiet(models[0], (x, y, twice))
    quiet(models[1], (x[repeated], y[repeated]), batch=len(repeated))
    quiet(models[2], (x, y, np.full(BATCH, 7.5)))
    quiet(models[3], (x, y))
    for a, b in ((0, 1), (2, 3)):
        for name, value in values(models[a]).items():
            np.testing.assert_allclose(value, values(models[b])[name], atol=1e-6)
    # A batch without weight makes no step.
    quiet(models[4], (np.tile(x, (2, 1)), np.tile(y, 2), np.repeat([1, 0], BATCH)))
    for name, value in values(models[4]).items():
        np.testing.assert_allclose(value, values(models[3])[name], atol=1e-6)


@pytest.mark.parametrize("given", [{0: 1.0, 1: 2.0, 2: 0.25}, [1, 2, 0.25], np.array([1, 2, 0.25])])
def test_class_weights_are_weights_of_rows(given):
    x, y, w = rows_of()
    by_class = np.array([1, 2, 0.25])[y]
    held_out = rows_of(21, 1)
    one_hot = np.eye(3, dtype="float32")
    options = {"epochs": 2, "metrics": ["accuracy"]}
    held_weights = np.array([1, 2, 0.25])[held_out[1]]
    for own in (None, w):
        wanted = classifier()
        history = quiet(
            wanted,
            (x, y, by_class if own is None else by_class * own),
            validation=(*held_out[:2], held_weights),
            **options,
        )
        for targets, held_targets in ((y, held_out[1]), (one_hot[y], one_hot[held_out[1]])):
            model = classifier()
            found = quiet(
                model,
                (x, targets) if own is None else (x, targets, own),
                class_weight=given,
                validation=(held_out[0], held_targets),
                **options,
            )
            for name in ("loss", "accuracy", "validation_loss", "validation_accuracy"):
                np.testing.assert_allclose(found[name], history[name], rtol=1e-5)
            for name, value in values(model).items():
                np.testing.assert_allclose(value, values(wanted)[name], atol=1e-6)
    found = nn.evaluate(wanted, (x, y), class_weight=given, metrics=["accuracy"])
    assert found == nn.evaluate(wanted, (x, y, by_class), metrics=["accuracy"])


def test_binary_class_weights_and_elementwise_losses():
    x, y, w = rows_of()
    targets = (y > 1).astype("float32")[:, None]
    model = nn.Sequential(nn.Dense(1)).build((None, 4))
    z = (x @ values(model)["0.weight"] + values(model)["0.bias"]).astype("float64")
    losses = np.log1p(np.exp(-np.where(targets > 0, z, -z)))
    by_class = np.where(targets > 0, 5.0, 0.5)
    for own in (np.ones(len(x)), w):
        found = nn.evaluate(
            model, (x, targets, own), loss="binary_cross_entropy", class_weight={0: 0.5, 1: 5.0}
        )
        both = by_class * own[:, None]
        assert found["loss"] == pytest.approx((both * losses).sum() / both.sum(), rel=1e-5)
    # Values on axes that weights do not have are averaged.
    targets = np.random.default_rng(1).normal(size=(50, 3)).astype("float32")
    model = classifier()
    error = x @ values(model)["0.weight"] + values(model)["0.bias"] - targets
    found = nn.evaluate(model, (x, targets, w), loss="mse", metrics=["mae"])
    assert found["loss"] == pytest.approx((w * (error**2).mean(1)).sum() / w.sum(), rel=1e-5)
    assert found["mae"] == pytest.approx((w * abs(error).mean(1)).sum() / w.sum(), rel=1e-5)
    # One weight per element.
    each = np.abs(targets)
    found = nn.evaluate(model, (x, targets, each), loss="mse")
    assert found["loss"] == pytest.approx((each * error**2).sum() / each.sum(), rel=1e-5)
    # A function gives one number per row.
    found = nn.evaluate(model, (x, targets, w), loss=lambda p, y: ((p - y) ** 2).mean(axis=1))
    assert found["loss"] == pytest.approx((w * (error**2).mean(1)).sum() / w.sum(), rel=1e-5)
    plain = nn.evaluate(model, (x, targets), loss=lambda p, y: ((p - y) ** 2).mean(axis=1))
    assert plain["loss"] == pytest.approx((error**2).mean(), rel=1e-5)


@pytest.mark.parametrize("micro_batches", [0, 2])
def test_pixels_have_weights(micro_batches):
    """Of a segmentation: per image, per pixel, and by the class of a pixel."""
    rng = np.random.default_rng(0)
    x = rng.random((6, 1, 4, 5), np.float32)
    y = rng.integers(0, 3, (6, 4, 5))
    images, pixels = rng.random(6), rng.random((6, 4, 5))
    start = lambda: nn.Sequential(nn.Conv2d(3, 1)).build((None, 1, 4, 5))
    model = start()
    filters, bias = (values(model)[f"0.{n}"].astype("float64") for n in ("weight", "bias"))
    z = x * filters.reshape(1, 3, 1, 1) + bias.reshape(1, 3, 1, 1)
    log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
    losses = -np.take_along_axis(log_p, y[:, None], 1)[:, 0]
    hits = z.argmax(1) == y
    by_class = np.array([1, 5, 0.5])[y]
    cases = [
        ((x, y, images), None, np.broadcast_to(images[:, None, None], y.shape)),
        ((x, y, pixels), None, pixels),
        ((x, y), [1, 5, 0.5], by_class),
        ((x, y, images), [1, 5, 0.5], by_class * images[:, None, None]),
    ]
    for data, class_weight, w in cases:
        metrics = ["accuracy"] if micro_batches else ["accuracy", "top_k_accuracy"]
        found = quiet(
            start(),
            data,
            batch=6,
            epochs=1,
            metrics=metrics,
            class_weight=class_weight,
            micro_batches=micro_batches,
        )
        assert found["loss"][0] == pytest.approx((w * losses).sum() / w.sum(), rel=1e-5)
        assert found["accuracy"][0] == pytest.approx((w * hits).sum() / w.sum(), rel=1e-5)
        if not micro_batches:
            assert found["top_k_accuracy"][0] == pytest.approx(1)


def test_metrics_one_by_one():
    """reduction="none" gives the shape of the targets."""
    rng = np.random.default_rng(0)
    p, y = rng.random((4, 3, 2, 5), np.float32), rng.integers(0, 3, (4, 2, 5))
    tp, ty = snug.tensor.tensor4(dtype="float32"), snug.tensor.ltensor3()
    for metric, wanted in (
        (nn.accuracy, p.argmax(1) == y),
        (nn.mean_error, p.argmax(1) != y),
        (nn.top_k_accuracy, np.ones(y.shape)),
    ):
        each = metric(tp, ty, axis=1, reduction="none")
        np.testing.assert_array_equal(snug.function([tp, ty], each)(p, y), wanted)
    with pytest.raises(ValueError, match="unknown reduction"):
        nn.accuracy(tp, ty, axis=1, reduction="maximum")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda w: np.where(np.arange(50) == 17, -1, w), "weight 17 is -1.0"),
        (lambda w: np.where(np.arange(50) == 40, np.nan, w), "weight 40 is nan"),
        (lambda w: np.where(np.arange(50) == 2, np.inf, w), "weight 2 is inf"),
        (lambda w: 0 * w, "all weights of the training data are 0"),
        (lambda w: w[:20], "array 2 has 20 rows, array 0 has 50"),
    ],
)
def test_wrong_weights(change, text):
    x, y, w = rows_of()
    model = classifier()
    start = values(model)
    with pytest.raises(ValueError, match=text):
        quiet(model, (x, y, change(w)), epochs=1)
    for name, value in values(model).items():
        np.testing.assert_array_equal(value, start[name])


def test_wrong_weights_in_files_are_told_by_their_batch(tmp_path):
    x, y, w = rows_of()
    w[20] = -2
    np.savez(tmp_path / "data.npz", x=x, y=y, w=w)
    source = snug.data.npz(tmp_path / "data.npz", "x", "y", "w")
    with pytest.raises(ValueError, match=r"a weight is -2 \(row 4 of batch 1 of an epoch\)"):
        quiet(classifier(), source)
    with pytest.raises(ValueError, match="a weight is -2"):
        nn.evaluate(classifier(), source)


def test_what_cannot_be_weighted():
    x, y, w = rows_of()
    for data in ((x, y, w, w), snug.data.arrays(a=x, b=y, c=w, d=w)):
        with pytest.raises(ValueError, match=r"have 4 fields(.|\n)*input, a target and"):
            quiet(classifier(), data)
    with pytest.raises(TypeError, match="one number per row"):
        quiet(classifier(), (x, y, w), metrics=[lambda p, y: p.max()])
    with pytest.raises(TypeError, match="the weights are"):
        quiet(classifier(), (x, y, np.ones((50, 3))))
    with pytest.raises(ValueError, match="weights for 3 classes"):
        quiet(classifier(), (x, y), class_weight=[1, 2])
    with pytest.raises(ValueError, match="none of class 1"):
        quiet(classifier(), (x, y), class_weight={0: 1, 2: 3})
    with pytest.raises(ValueError, match="class_weight has -1"):
        quiet(classifier(), (x, y), class_weight=[1, -1, 1])
    with pytest.raises(TypeError, match="class_weight is"):
        quiet(classifier(), (x, y), class_weight=3)
    with pytest.raises(TypeError, match="for targets that are classes"):
        quiet(classifier(), (x, x[:, :3]), loss="mse", class_weight=[1, 1, 1])
    pixels = nn.Sequential(nn.Conv2d(3, 1)).build((None, 1, 4, 5))
    images = np.ones((6, 1, 4, 5), "float32"), np.zeros((6, 4, 5), int), np.ones((6, 4, 3))
    with pytest.raises(ValueError, match=r"the weights have shape \(\?, 4, 3\), not \(\?, 4, 5\)"):
        quiet(pixels, images)


def test_a_training_goes_on_with_the_weights_it_had(tmp_path):
    x, y, w = rows_of()
    options = {"epochs": 2, "folder": tmp_path, "class_weight": [1, 2, 3]}
    quiet(classifier(), (x, y, w), **options)
    with pytest.raises(ValueError, match=r"float32 \(\); these are float32 \(4,\); int64 \(\)"):
        quiet(classifier(), (x, y), resume=True, **options)
    with pytest.raises(ValueError, match=r"class_weight 1, 2, 3, this one has none"):
        quiet(classifier(), (x, y, w), resume=True, **(options | {"class_weight": None}))
