"""Parts of models, freezing, and files that have some of the parameters."""

import gc
import importlib.util
import re
import weakref
from pathlib import Path

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import nn

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def named_model(classes=4, first="body"):
    body = nn.Sequential(("conv", nn.Conv2d(3, 3, activation="relu")), ("norm", nn.BatchNorm()))
    model = nn.Sequential((first, body), ("flat", nn.Flatten()), ("head", nn.Dense(classes)))
    return model.build((None, 1, 6, 6))


def pictures(rows=40, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(1, 2, (rows, 1, 6, 6)).astype("float32"), rng.integers(0, classes, rows)


def values(model):
    return {name: v.get_value() for name, v in model.state().items()}


# ---- parts


def test_parts_by_number_name_and_path():
    model = named_model()
    assert len(model) == 3 and bool(model) and bool(nn.Dense(3))
    assert model[0] is model["body"] and model[-1] is model["head"]
    assert model["body.conv"] is model["body"]["conv"] is model[0][0]
    assert [repr(layer) for layer in model[0]] == ["Conv2d(3, 3x3, relu)", "BatchNorm"]
    assert [name for name, _ in model.items()] == ["body", "flat", "head"]
    assert list(model[-1].state()) == ["weight", "bias"]


def test_slices_share_layers_and_keep_names():
    model = named_model()
    body, rest = model[:-1], model[1:]
    assert [name for name, _ in rest.items()] == ["flat", "head"]
    assert body.state()["body.conv.weight"] is model.state()["body.conv.weight"]
    x = T.tensor4()
    images = pictures(5)[0]
    features = snug.function([x], body(x))(images)
    weight, bias = (v.get_value() for v in model["head"].parameters())
    np.testing.assert_allclose(
        snug.function([x], model(x))(images), features @ weight + bias, rtol=1e-5
    )
    assert model[1:1].state() == {}


def test_a_new_head():
    model = named_model(4)
    body = values(model["body"])
    model["head"] = nn.Dense(7)
    model.build((None, 1, 6, 6))
    assert model.state()["head.weight"].get_value().shape == (48, 7)
    np.testing.assert_array_equal(
        model["body.conv"].state()["weight"].get_value(), body["conv.weight"]
    )
    again = nn.Sequential(*model.items()[:-1], ("top", nn.Dense(2))).build((None, 1, 6, 6))
    assert list(again.state())[-2:] == ["top.weight", "top.bias"]
    model[1] = lambda x: x.flatten(2)
    assert repr(model[1]) == "<lambda>"
    with pytest.raises(ValueError, match="inside itself"):
        model[1] = nn.Sequential(model)


def test_wrong_parts():
    model = named_model()
    with pytest.raises(IndexError, match=r'no layer "haed"(.|\n)*it has body, flat, head'):
        model["haed"]
    with pytest.raises(IndexError, match="has 3 layers, there is no number 3"):
        model[3]
    with pytest.raises(TypeError, match=r"Dense\(4\) has no layers inside"):
        len(model["head"])
    with pytest.raises(ValueError, match="the step of a slice is 2"):
        model[::2]
    with pytest.raises(TypeError, match="slices are of Sequential"):
        nn.Residual(nn.Dense(3))[:1]
    with pytest.raises(IndexError, match="inside another one"):
        model["body.conv"] = nn.Dense(3)


def test_parts_of_two_models_have_optimizers_of_their_own(tmp_path):
    a, b = named_model(), named_model()
    model = nn.Sequential(("body", a["body"]), nn.Flatten(), nn.Dense(4)).build((None, 1, 6, 6))
    twins = nn.Concat(a[0], b[0])  # parameters with the same names
    model = nn.Sequential(twins, nn.Flatten(), nn.Dense(4)).build((None, 1, 6, 6))
    nn.fit(model, pictures(), epochs=1, folder=tmp_path, progress="silent")
    nn.fit(model, pictures(), epochs=2, folder=tmp_path, progress="silent", resume=True)


# ---- freezing


def test_frozen_layers_stay():
    model = named_model()
    assert model["body"].freeze() is model["body"]
    assert model["body.norm"].frozen and not model["head"].frozen and not model.frozen
    assert model.parameters() == model["head"].parameters()
    before = values(model)
    nn.fit(model, pictures(), epochs=2, progress="silent")
    after = values(model)
    for name in before:
        assert np.array_equal(before[name], after[name]) == name.startswith("body."), name
    model.unfreeze()
    nn.fit(model, pictures(), epochs=1, progress="silent")
    assert all(not np.array_equal(after[name], v) for name, v in values(model).items())


def test_frozen_batch_normalisation_uses_running_statistics():
    model = nn.Sequential(nn.BatchNorm()).build((None, 3))
    model.freeze()
    x = T.fmatrix()
    data = np.random.default_rng(0).normal(5, 2, (10, 3)).astype("float32")
    f = snug.function([x], model(x, training=True))
    np.testing.assert_allclose(f(data), data, rtol=1e-4)
    assert np.array_equal(model.state()["0.running_mean"].get_value(), np.zeros(3))


def test_frozen_layers_have_no_state_and_no_gradient(tmp_path):
    model = named_model()
    model["body"].freeze()
    nn.fit(model, pictures(), epochs=1, folder=tmp_path, progress="silent")
    (file,) = tmp_path.glob("checkpoint-*")
    states = [name for name in snug.io.load(file) if name.startswith("optimizer/")]
    assert states and not [name for name in states if "body" in name]

    def peak(model):
        x, y = T.tensor4("x"), T.lvector("y")
        loss = nn.cross_entropy(model(x, training=True), y)
        step = snug.function([x, y], loss, updates=snug.optim.adam(loss, model.parameters()))
        return step.memory(x=(64, 1, 28, 28), y=(64,)).peak

    whole, frozen = nn.make_model("lenet"), nn.make_model("lenet")
    frozen[:-1].freeze()
    assert peak(frozen) < 0.8 * peak(whole)


def test_summary_shows_what_is_frozen():
    model = named_model()
    model["body"].freeze()
    summary = nn.summary(model, (2, 1, 6, 6))
    assert "Conv2d(3, 3x3, relu) [frozen]" in str(summary) and "Flatten [" not in str(summary)
    assert [layer["frozen"] for layer in summary.layers] == [True, True, False, False]
    assert summary.total["trainable"] == 48 * 4 + 4
    assert f"trainable {48 * 4 + 4} of" in str(summary)


def test_nothing_left_to_train():
    model = named_model().freeze()
    with pytest.raises(ValueError, match=r"no parameter(.|\n)*unfreeze some"):
        nn.fit(model, pictures(), epochs=1)


def test_a_function_is_frozen_before_its_first_call():
    inner = nn.Dense(3)

    def block(x):
        return inner(x)

    model = nn.Sequential(block, nn.Dense(2))
    model[0].freeze()
    model.build((None, 4))
    assert inner.frozen and len(model.parameters()) == 2


# ---- files


def test_loading_is_strict(tmp_path):
    file = tmp_path / "model.safetensors"
    model = named_model(4)
    nn.save(model, file)
    other = named_model(5, "base")
    before = values(other)
    with pytest.raises(ValueError) as caught:
        nn.load(other, file)
    text = str(caught.value)
    assert "6 missing (base.conv.weight" in text and "6 left over (body.conv." in text
    assert "head.weight: float32 (48, 4) in the file, float32 (48, 5) in the model" in text
    assert "strict=False" in text
    for name, value in values(other).items():
        np.testing.assert_array_equal(value, before[name])
    assert nn.load(named_model(4), file).complete


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_loading_what_fits(tmp_path, ending):
    file = tmp_path / f"model.{ending}"
    model = named_model(4)
    for variable in model.state().values():
        variable.set_value(np.full_like(variable.get_value(), 3))
    nn.save(model, file)
    other = named_model(5)
    report = nn.load(other, file, strict=False)
    assert len(report.loaded) == 6 and not report.missing and not report.left_over
    assert len(report.different) == 2 and not report.complete
    assert "6 loaded; 2 of another type (head.weight" in repr(report)
    for name, value in values(other).items():
        assert (value == 3).all() == name.startswith("body."), name
    # The part alone has names of its own.
    nn.save(model["body"], file)
    assert nn.load(named_model(9)["body"], file).complete
    with pytest.raises(ValueError, match="no parameter fits"):
        nn.load(other, file, strict=False)


def test_loading_from_a_checkpoint_ignores_the_rest_of_it(tmp_path):
    model = named_model()
    nn.fit(model, pictures(), epochs=1, folder=tmp_path, progress="silent")
    (file,) = tmp_path.glob("checkpoint-*")
    assert nn.load(named_model(), file).complete


def test_the_document(tmp_path, monkeypatch):
    """What docs/nn.md shows runs."""
    text = (EXAMPLES.parent / "docs" / "nn.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks[:3] + blocks[-2:-1]:
        exec(compile(block, "docs/nn.md", "exec"), names)
    assert len(names["model"].parameters()) == 10


def test_the_example(capsys):
    spec = importlib.util.spec_from_file_location("transfer", EXAMPLES / "transfer.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    assert example.main(["--epochs", "3", "--rows", "400"]) > 0.8
    out = capsys.readouterr().out
    assert "8 loaded; 2 of another type" in out and "Dense(84, relu) [frozen]" in out


# ---- cycles


def test_functions_that_refer_to_their_model_are_collected():
    def make():
        def block(x):
            return x + len(body)

        body = nn.Sequential(nn.Dense(3), block)
        block.model = nn.Sequential(body, body[1:], lambda x: body[0](x)).build((None, 3))
        return weakref.ref(block)

    block = make()
    gc.collect()
    assert block() is None


def test_functions_of_models_in_use_are_not_collected():
    def make():
        def block(x):
            return x + len(model)

        model = nn.Sequential(nn.Dense(3), block)
        return model[1:]

    part = make()
    gc.collect()
    x = T.fmatrix()
    assert (snug.function([x], part(x))(np.zeros((1, 3), "float32")) == 2).all()
