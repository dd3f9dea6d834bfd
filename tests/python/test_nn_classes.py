"""Classes that derive from nn.Layer, and that the interpreter ends in silence with them."""

import subprocess
import sys

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import nn


class Block(nn.Layer):
    def __init__(self, units):
        super().__init__()
        self.units = units
        self.inner = nn.Dense(units, activation="tanh")
        self.rest = [nn.Dense(units), nn.Dropout(0.5)]
        self.by_name = {"norm": nn.BatchNorm()}
        self.scale = snug.shared(np.ones(units, "float32"))
        self.seen = []

    def forward(self, x):
        self.seen.append(self.training)
        y = self.inner(x)
        for layer in self.rest:
            y = layer(y)
        weight = self.parameter("weight", (self.units, 3), "he_normal")
        return T.dot(self.by_name["norm"](y) * self.scale, weight)


def points(rows=60):
    x = np.random.default_rng(0).normal(size=(rows, 4)).astype("float32")
    return x, (x.sum(1) > 0).astype("int64")


NAMES = ["weight", "scale", "inner.weight", "inner.bias", "rest.0.weight", "rest.0.bias"]


def test_parameters_and_layers_are_found_in_attributes():
    block = Block(5).build((None, 4))
    norm = [f"by_name.norm.{name}" for name in ("running_mean", "running_var", "weight", "bias")]
    assert list(block.state()) == NAMES + norm
    assert len(block.parameters()) == 8
    assert block["rest.0"] is block.rest[0] and block["inner"] is block.inner
    assert repr(block) == "Block"
    block.inner = nn.Dense(5)
    block.build((None, 4))
    assert len(block.parameters()) == 8


def test_the_expression_is_that_of_forward():
    class Affine(nn.Layer):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(3)

        def forward(self, x):
            return 2 * self.dense(x) + 1

    layer = Affine()
    x = T.fmatrix()
    layer.build((None, 4))
    data = points(5)[0]
    weight, bias = (p.get_value() for p in layer.parameters())
    got = snug.function([x], layer(x))(data)
    np.testing.assert_allclose(got, 2 * (data @ weight + bias) + 1, rtol=1e-5)


def test_fit_save_load_and_summary(tmp_path):
    make = lambda: nn.Sequential(Block(6), nn.Dense(2)).build((None, 4))
    model = make()
    history = nn.fit(model, points(), epochs=15, rate=0.02, metrics="accuracy", progress="silent")
    assert history["accuracy"][-1] > 0.8
    assert True in model[0].seen and False in model[0].seen
    nn.save(model, tmp_path / "model.npz")
    again = make()
    assert nn.load(again, tmp_path / "model.npz").complete
    assert nn.evaluate(again, points()) == nn.evaluate(model, points())
    summary = nn.summary(model, (2, 4))
    rows = {row["name"]: row for row in summary.layers}
    assert rows["0"]["kind"] == "Block" and rows["0"]["parameters"] == 6 * 3 + 6
    assert rows["0"]["flops"] == 2 * 2 * 6 * 3
    assert summary.total["parameters"] == sum(v.get_value().size for v in model.state().values())


def test_freezing_pruning_and_replacing():
    model = nn.Sequential(Block(6), nn.Dense(2)).build((None, 4))
    nn.prune(model, 0.5)
    model[0].freeze()
    assert model.parameters() == model[1].parameters() and model[0].inner.frozen
    before = {name: v.get_value() for name, v in model[0].state().items()}
    nn.fit(model, points(), epochs=1, progress="silent")
    for name, v in model[0].state().items():
        np.testing.assert_array_equal(v.get_value(), before[name])
    model.unfreeze()
    nn.fit(model, points(), epochs=2, progress="silent")
    assert nn.sparsity(model).sparsity > 0.45


def test_a_shared_variable_in_two_layers_counts_once():
    class Scale(nn.Layer):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, x):
            return x * self.factor

    factor = snug.shared(np.float32(2), "factor")
    model = nn.Sequential(Scale(factor), nn.Dense(2), Scale(factor)).build((None, 4))
    assert len(model.parameters()) == 3
    nn.fit(model, points(), epochs=1, progress="silent")


def test_layers_called_are_attributes():
    class Net(nn.Layer):
        def forward(self, x):
            return nn.Dense(3)(x)

    with pytest.raises(ValueError, match="not one of its attributes: Dense"):
        Net().build((None, 4))


def test_the_layer_comes_before_its_attributes():
    class Net(nn.Layer):
        def __init__(self):
            self.dense = nn.Dense(3)

        def forward(self, x):
            return self.dense(x)

    with pytest.raises(TypeError, match=r"sets dense before(.|\n)*call super\(\).__init__"):
        Net()


def test_parameters_are_made_in_forward():
    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.w = self.parameter("w", (3,))

        def forward(self, x):
            return x

    with pytest.raises(ValueError, match="outside forward"):
        Net()


def test_a_layer_gives_one_tensor():
    """Two of equal shape were stacked."""

    class Two(nn.Layer):
        def __init__(self):
            super().__init__()
            self.dense = nn.Dense(3)

        def forward(self, x):
            y = self.dense(x)
            return y, y

    with pytest.raises(TypeError, match=r"Two gives 2 values(.|\n)*one tensor: join them"):
        Two().build((None, 4))
    with pytest.raises(TypeError, match="gives 1 values"):
        nn.Sequential(nn.Dense(3), lambda x: [x]).build((None, 4))


@pytest.mark.parametrize("shape", [(1, 4), (1, 1), (4,)])
def test_parameters_of_size_one_stretch(shape):
    """As `build` lets them, on a real batch, in training and pruned."""

    class Shift(nn.Layer):
        def forward(self, x):
            return x + self.parameter("by", shape, start="ones")

    model = nn.Sequential(Shift(), nn.Dense(2)).build((None, 4))
    x = T.fmatrix()
    batch = np.arange(12, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(snug.function([x], model[:1](x))(batch), batch + 1)
    nn.prune(model, 0)
    options = {"optimizer": "momentum", "rate": 0.1, "average": 0.5, "epochs": 3}
    before = model.state()["0.by"].get_value()
    nn.fit(model, (batch, np.array([0, 1, 0])), progress="silent", **options)
    after = model.state()["0.by"].get_value()
    assert after.shape == shape and not np.array_equal(before, after)
    # The gradient sums over what it stretched to.
    y = T.lvector()
    loss = nn.cross_entropy(model(x), y)
    found = snug.function([x, y], snug.grad(loss, model.state()["0.by"]))(batch, [0, 1, 0])
    weight, bias = (model.state()[f"1.{n}"].get_value() for n in ("weight", "bias"))
    z = (batch + after) @ weight + bias
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    p[np.arange(3), [0, 1, 0]] -= 1
    each = p @ weight.T / 3
    wanted = {(1, 4): each.sum(0, keepdims=True), (1, 1): each.sum(), (4,): each.sum(0)}[shape]
    np.testing.assert_allclose(found, np.broadcast_to(wanted, shape), atol=1e-5)


LEAKS = {
    "a function of the module": """
inner = nn.Dense(4)
def block(x):
    return x + inner(x)
model = nn.Sequential(block, nn.Dense(2)).build((None, 4))
part = model[:-1]
f = snug.function([x], model(x))
""",
    "a method": """
class Net:
    def __init__(self):
        self.dense = nn.Dense(4)
        self.model = nn.Sequential(self.dense, self.half).build((None, 4))
    def half(self, x):
        return x / 2
net = Net()
""",
    "a class": """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Dense(4), lambda x: x * self.scale)
        self.scale = snug.shared(np.ones(4, "float32"))
        self.me = self
    def forward(self, x):
        return self.body(x)
net = Net()
model = nn.Sequential(net, lambda x: net(x)).build((None, 4))
nn.fit(model, (np.zeros((4, 4), "float32"), np.zeros(4, "int64")), epochs=1, progress="silent",
       on_epoch=lambda e: bool(net))
""",
}


@pytest.mark.parametrize("name", LEAKS)
def test_the_interpreter_ends_in_silence(name):
    program = "import numpy as np, snug, snug.tensor as T\nfrom snug import nn\nx = T.fmatrix()\n"
    done = subprocess.run(
        [sys.executable, "-c", program + LEAKS[name]], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
