"""The training loop: what it computes, its checkpoints, and that a killed training ends with the
same bits."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import nn


def spirals(rows=200, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, rows)
    angle = rng.uniform(0, 4, rows)
    x = np.stack([np.cos(angle + np.pi * label), np.sin(angle + np.pi * label)]) * angle
    return x.T.astype("float32"), label.astype("int64")


def small_model(units=16, dropout=0.0):
    layers = [nn.Dense(units, activation="tanh"), nn.Dense(2)]
    if dropout:
        layers.insert(1, nn.Dropout(dropout))
    return nn.Sequential(*layers).build((None, 2))


def values(model):
    return {name: v.get_value() for name, v in model.state().items()}


def quiet(model, data, **options):
    return nn.fit(model, data, progress="silent", **options)


def same_values(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


# ---- what it computes


def test_equals_a_loop_by_hand():
    x, y = spirals(50)
    loader = lambda: snug.data.Loader(snug.data.arrays(x, y), batch=16, seed=3)
    model = small_model()
    history = quiet(model, loader(), epochs=3, optimizer="momentum", rate=0.1, metrics=["accuracy"])

    wanted = small_model()
    tx, ty = T.fmatrix(), T.lvector()
    out = wanted(tx, training=True)
    loss = nn.cross_entropy(out, ty)
    updates = snug.optim.momentum(loss, wanted.parameters(), 0.1)
    step = snug.function([tx, ty], [loss, nn.accuracy(out, ty)], updates=updates)
    losses, batches = [], loader()
    for _ in range(3):
        results = [(len(b[1]), *step(*b)) for b in batches]
        losses.append([sum(n * r[k] for n, *r in results) / len(x) for k in (0, 1)])
    for name, value in values(model).items():
        np.testing.assert_allclose(value, values(wanted)[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(history["loss"], [a for a, _ in losses], rtol=1e-5)
    np.testing.assert_allclose(history["accuracy"], [b for _, b in losses], rtol=1e-5)
    assert [e.step for e in history.epochs] == [4, 8, 12]


def test_bfloat16_rounds_products_and_keeps_float32_parameters(tmp_path):
    x, y = spirals(64)
    trained = {}
    for precision in ("float32", "bfloat16"):
        model = small_model()
        history = quiet(
            model,
            (x, y),
            epochs=4,
            shuffle=False,
            validation=(x, y),
            optimizer="sgd",
            rate=0.1,
            precision=precision,
            folder=tmp_path / precision,
        )
        trained[precision] = values(model)

        by_hand = small_model()
        tx, ty = T.fmatrix(), T.lvector()
        loss = nn.cross_entropy(by_hand(tx, training=True), ty)
        updates = snug.optim.sgd(loss, by_hand.parameters(), 0.1)
        step = snug.function([tx, ty], loss, updates=updates, precision=precision)
        evaluate = snug.function([tx, ty], nn.cross_entropy(by_hand(tx), ty), precision=precision)
        for wanted in history["validation_loss"]:
            for k in (0, 32):
                step(x[k : k + 32], y[k : k + 32])
            losses = [evaluate(x[k : k + 32], y[k : k + 32]) for k in (0, 32)]
            np.testing.assert_allclose(wanted, np.mean(losses), rtol=1e-6)
        for name, value in values(by_hand).items():
            np.testing.assert_allclose(trained[precision][name], value, rtol=1e-6, atol=1e-7)
    saved = snug.io.load(tmp_path / "bfloat16" / "model.safetensors")
    assert {a.dtype for a in saved.values()} == {np.dtype("float32")}
    a, b = (trained[p]["0.weight"] for p in ("float32", "bfloat16"))
    assert not np.array_equal(a, b)
    np.testing.assert_allclose(a, b, atol=0.05)
    with pytest.raises(ValueError, match="fit: precision is 'float16'"):
        quiet(small_model(), (x, y), precision="float16")


def test_learns_and_validates():
    model = small_model(32)
    history = quiet(
        model,
        spirals(400),
        epochs=40,
        rate=0.02,
        metrics=["accuracy"],
        validation=spirals(100, 1),
        on_epoch=lambda e: e.validation_metrics[0] < 0.97,
    )
    assert history["validation_accuracy"][-1] >= 0.97
    assert history.stopped_early and len(history.epochs) < 40


def test_evaluate_is_what_fit_says(tmp_path):
    model, held_out = small_model(dropout=0.5), spirals(50, 1)
    history = quiet(
        model, spirals(100), epochs=2, metrics=["accuracy"], validation=held_out, batch=16
    )
    found = nn.evaluate(model, held_out, metrics=["accuracy"], batch=16)
    assert found == {
        "loss": history["validation_loss"][-1],
        "accuracy": history["validation_accuracy"][-1],
    }
    loader = snug.data.Loader(snug.data.arrays(*held_out), batch=16, seed=2)
    first = next(iter(loader))[1]
    state = loader.state()
    assert nn.evaluate(model, loader)["loss"] == pytest.approx(found["loss"], rel=1e-6)
    assert loader.state() == state and len(first) == 16
    with pytest.raises(ValueError, match="1 fields"):
        nn.evaluate(model, held_out[:1])
    with pytest.raises(ValueError, match="precision is 'half'"):
        nn.evaluate(model, held_out, precision="half")


def test_functions_as_loss_and_metric():
    x = np.linspace(-1, 1, 64, dtype="float32")[:, None]

    def worst(p, y):
        return abs(p - y).max()

    model = nn.Sequential(nn.Dense(1)).build((None, 1))
    history = quiet(
        model,
        (x, 3 * x),
        loss=lambda p, y: ((p - y) ** 2).mean(),
        metrics=[worst],
        optimizer="sgd",
        rate=0.3,
        epochs=30,
    )
    assert history["worst"][-1] < 0.01


def test_early_stopping_and_the_best_parameters(tmp_path):
    for folder in (None, tmp_path):
        model = small_model()
        seen = {}
        history = quiet(
            model,
            spirals(60),
            epochs=50,
            rate=0.5,
            validation=spirals(40, 2),
            patience=3,
            restore_best=True,
            folder=folder,
            on_epoch=lambda e, m=model, s=seen: s.update({e.number: values(m)}),
        )
        assert history.stopped_early
        best = int(np.argmin(history["validation_loss"])) + 1
        assert history.best_epoch == best == len(history.epochs) - 3
        same_values(values(model), seen[best])
    same_values(snug.io.load(tmp_path / "model.safetensors"), seen[best])


def test_schedules_accumulation_and_budget():
    model = small_model()
    history = quiet(
        model,
        spirals(64),
        epochs=5,
        rate=snug.optim.cosine(0.05, 20),
        accumulate=2,
        clip_global_norm=1.0,
        weight_decay=1e-4,
        memory="50MiB",
    )
    assert history["loss"][-1] < history["loss"][0]


def test_save_and_load(tmp_path):
    model, other = small_model(), nn.Sequential(nn.Dense(16), nn.Dense(2)).build((None, 2), seed=7)
    for name in ("a.safetensors", "a.npz"):
        nn.save(model, tmp_path / name)
        nn.load(other, tmp_path / name)
        same_values(values(model), values(other))
    before = values(model)
    nn.save(small_model(8), tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match=r"0.weight: float32 \(2, 8\) in the file"):
        nn.load(model, tmp_path / "b.safetensors")
    same_values(values(model), before)


# ---- checkpoints


def test_resume_gives_the_same_bits(tmp_path):
    """Stopped after an epoch and in the middle of one; random numbers and state go on."""
    data = spirals(100)
    options = {"batch": 16, "epochs": 4, "metrics": ["accuracy"], "checkpoint_steps": 5}
    options["validation"] = spirals(30, 1)
    whole = small_model(dropout=0.5)
    wanted = quiet(whole, data, folder=tmp_path / "whole", **options)

    quiet(small_model(dropout=0.5), data, folder=tmp_path / "parts", **{**options, "epochs": 2})
    os.unlink(tmp_path / "parts" / "checkpoint-000000000014.safetensors")  # back to step 10
    resumed = small_model(dropout=0.5)
    history = quiet(resumed, data, folder=tmp_path / "parts", resume=True, **options)
    assert history.resumed_from.endswith("checkpoint-000000000010.safetensors")
    same_values(values(whole), values(resumed))
    for name in ("loss", "accuracy", "validation_loss", "validation_accuracy"):
        assert history[name] == wanted[name]
    same_files(tmp_path / "whole", tmp_path / "parts")


def same_files(a, b):
    names = sorted(p.name for p in a.iterdir())
    assert names == sorted(p.name for p in b.iterdir())
    assert len(names) == 4  # two checkpoints, the best, the model
    for name in names:
        assert (a / name).read_bytes() == (b / name).read_bytes(), name


def test_a_finished_training_is_not_trained_again(tmp_path):
    model = small_model()
    quiet(model, spirals(40), epochs=2, folder=tmp_path)
    again = small_model()
    history = quiet(again, spirals(40), epochs=2, folder=tmp_path, resume=True)
    assert len(history.epochs) == 2
    same_values(values(model), values(again))


def test_checkpoints_of_others(tmp_path):
    quiet(small_model(), spirals(40), epochs=2, folder=tmp_path)
    with pytest.raises(ValueError, match="has checkpoints of a training"):
        quiet(small_model(), spirals(40), epochs=2, folder=tmp_path)
    with pytest.raises(ValueError, match="of another model or optimizer"):
        quiet(small_model(8), spirals(40), epochs=2, folder=tmp_path, resume=True)
    newest = max(tmp_path.glob("checkpoint-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    history = quiet(small_model(), spirals(40), epochs=2, folder=tmp_path, resume=True)
    assert len(history.skipped) == 1 and newest.name in history.skipped[0]
    assert history.resumed_from != str(newest)


def test_damaged_checkpoints_do_not_push_out_new_ones(tmp_path):
    """After a crash of the disk the training begins anew, and its checkpoints stay."""
    quiet(small_model(), spirals(40), epochs=20, folder=tmp_path)
    for path in tmp_path.iterdir():
        os.truncate(path, 1000)
    steps = lambda: sorted(int(p.stem[11:]) for p in tmp_path.glob("checkpoint-*"))
    assert steps() == [38, 40]
    seen = []

    def stop(epoch):
        seen.append(steps())
        return epoch.number < 4

    options = {"epochs": 20, "folder": tmp_path, "resume": True, "on_epoch": stop}
    history = quiet(small_model(), spirals(40), **options)
    assert len(history.skipped) == 4 and len(history.epochs) == 4
    assert seen == [[38, 40], [2, 38, 40], [2, 4, 38, 40], [4, 6, 38, 40]]
    history = quiet(small_model(), spirals(40), **options)
    assert history.resumed_from.endswith("checkpoint-000000000008.safetensors")
    whole = small_model()
    quiet(whole, spirals(40), epochs=20)
    resumed = small_model()
    quiet(resumed, spirals(40), epochs=20, folder=tmp_path, resume=True)
    same_values(values(resumed), values(whole))
    assert steps() == [38, 40]  # written anew


def test_keep_counts_valid_files(tmp_path):
    first = snug.io.Checkpoints(str(tmp_path), keep=2)
    names = lambda: sorted(int(p.stem[11:]) for p in tmp_path.glob("checkpoint-*"))
    for step in (10, 20, 30):
        first.save(step, {"a": np.arange(3)})
    assert names() == [20, 30]
    path = tmp_path / "checkpoint-000000000030.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    again = snug.io.Checkpoints(str(tmp_path), keep=2)
    again.save(21, {"a": np.arange(3)})
    assert names() == [20, 21, 30]
    again.save(22, {"a": np.arange(3)})
    assert names() == [21, 22, 30]


# ---- the data of a checkpoint


def test_other_data_of_the_same_shape_are_refused(tmp_path):
    (x, y), held_out = spirals(40), spirals(20, 1)
    options = {"folder": tmp_path / "run", "validation": held_out, "epochs": 2}
    quiet(small_model(), (x, y), **options)
    options |= {"resume": True, "epochs": 3}
    model = small_model()
    start = values(model)
    one_bit = x.copy()
    one_bit[17, 1] = np.nextafter(one_bit[17, 1], np.float32(9))
    with pytest.raises(ValueError, match=r"other training data: other values in the field \(0: fl"):
        quiet(model, (one_bit, y), **options)
    with pytest.raises(ValueError, match=r"other values in the field \(1: int64 \(\)\)") as caught:
        quiet(model, (x, 1 - y), **options)
    assert 'accept=["data"]' in str(caught.value)
    with pytest.raises(ValueError, match="other values in the fields "):
        quiet(model, spirals(40, 5), **options)
    with pytest.raises(ValueError, match="with other validation data"):
        quiet(model, (x, y), **(options | {"validation": spirals(20, 2)}))
    with pytest.raises(ValueError, match='accept has "date"'):
        quiet(model, (x, y), accept="date", **options)
    same_values(values(model), start)
    history = quiet(model, (x, 1 - y), accept=["data"], **options)
    assert history.resumed_from and len(history.epochs) == 3
    # These are its data from now on.
    quiet(small_model(), (x, 1 - y), **(options | {"epochs": 4}))


def test_the_same_data_elsewhere_go_on(tmp_path):
    """Arrays with names, a part of larger ones, a file in another place."""
    x, y = spirals(60)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / f"{folder}.npy", x)
        np.save(tmp_path / folder / "labels.npy", y)
    files = lambda at: snug.data.zip(
        snug.data.npy(tmp_path / at / f"{at}.npy"), snug.data.npy(tmp_path / at / "labels.npy")
    )
    twice = np.tile(x, (2, 1)), np.tile(y, 2)
    for run, same in (
        ("arrays", [(x, y), snug.data.arrays(points=x, labels=y), snug.data.arrays(*twice)[60:]]),
        ("files", [files("a"), files("b")]),  # which are shuffled in windows
    ):
        wanted = small_model()
        quiet(wanted, same[0], epochs=len(same))
        for k, data in enumerate(same):
            model = small_model()
            quiet(model, data, epochs=k + 1, folder=tmp_path / run, resume=True)
        same_values(values(model), values(wanted))


def test_folders_of_images_are_told_apart(tmp_path):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (tmp_path / "one" / name).mkdir(parents=True)
        for k in range(4):
            pixels = rng.integers(0, 256, (8, 8, 3)).astype("uint8")
            image.fromarray(pixels).save(tmp_path / "one" / name / f"{k}.png")
    shutil.copytree(tmp_path / "one", tmp_path / "two")

    def train(folder, epochs):
        model = nn.Sequential(nn.GlobalAveragePool(), nn.Dense(2)).build((None, 3, 8, 8))
        source = snug.data.images(tmp_path / folder, 8)
        to_floats = snug.data.to("float32", 1 / 255)
        data = snug.data.Loader(source, batch=4, transforms=[to_floats])
        return quiet(model, data, epochs=epochs, folder=tmp_path / "run", resume=True)

    train("one", 1)
    assert len(train("two", 2).epochs) == 2
    (tmp_path / "two" / "cats").rename(tmp_path / "two" / "cows")
    with pytest.raises(ValueError, match="their classes have other names"):
        train("two", 3)
    (tmp_path / "two" / "cows" / "2.png").write_bytes(
        (tmp_path / "two" / "cows" / "1.png").read_bytes()
    )
    (tmp_path / "two" / "cows").rename(tmp_path / "two" / "cats")
    with pytest.raises(ValueError, match=r"other values in the field \(image: uint8"):
        train("two", 3)


# ---- budgets


def wide_model():
    return nn.Sequential(nn.Dense(512, activation="tanh"), nn.Dense(2)).build((None, 2))


IN_SLICES = {"batch": 250, "recompute": False, "optimizer": "sgd", "rate": 0.1}


def slices_of(memory, rows=500):
    return nn.plan(wide_model(), ((rows, 2), (rows,)), memory=memory, **IN_SLICES).slices


def budgets():
    """Three budgets that need ever fewer slices."""
    whole = nn.plan(wide_model(), ((250, 2), (250,)), **IN_SLICES).peak
    found = {}
    for share in np.linspace(0.2, 1.0, 17):
        try:
            found.setdefault(slices_of(int(share * whole)), int(share * whole))
        except MemoryError:
            continue
    several = sorted((n for n in found if n > 1), reverse=True)
    assert len(several) >= 2
    return found[several[0]], found[several[1]], 2 * whole


def test_a_plan_is_kept_when_others_would_be_faster_now(tmp_path):
    """Rates that were measured again, or another budget, choose other slices, and sums over a batch
    in another order are other bits: a checkpoint knows how its steps ran."""
    tight, wider, ample = budgets()
    assert slices_of(tight) > slices_of(wider) > 1 and slices_of(ample) == 0
    data, held_out = spirals(600), spirals(260, 1)
    options = {**IN_SLICES, "validation": held_out, "folder": tmp_path / "parts"}
    wanted = wide_model()
    whole = quiet(
        wanted, data, memory=tight, epochs=4, **(options | {"folder": tmp_path / "whole"})
    )
    other = wide_model()
    quiet(other, data, memory=wider, epochs=4, **(options | {"folder": None}))
    assert not np.array_equal(values(other)["0.weight"], values(wanted)["0.weight"])

    quiet(wide_model(), data, memory=tight, epochs=1, **options)
    options["resume"] = True
    quiet(wide_model(), data, memory=wider, epochs=2, **options)
    quiet(wide_model(), data, memory=ample, epochs=3, **options)
    model = wide_model()
    history = quiet(model, data, epochs=4, **options)
    assert history["validation_loss"] == whole["validation_loss"]
    same_files(tmp_path / "whole", tmp_path / "parts")


def test_a_plan_that_cannot_be_kept_is_asked_about(tmp_path):
    tight, _, ample = budgets()
    options = {**IN_SLICES, "epochs": 2, "folder": tmp_path, "resume": True}
    data = spirals(500)
    quiet(wide_model(), data, memory=ample, **options)
    model = wide_model()
    start = values(model)
    options["epochs"] = 3
    with pytest.raises(MemoryError, match="batches of 250 rows ran in one there") as caught:
        quiet(model, data, memory=tight, **options)
    assert 'accept=["plan"]' in str(caught.value) and "what fits" in str(caught.value)
    with pytest.raises(ValueError, match="runs in 1 slices there, here in 5"):
        quiet(model, data, micro_batches=5, **options)
    same_values(values(model), start)
    history = quiet(model, data, memory=tight, accept="plan", **options)
    assert len(history.epochs) == 3
    state = max(tmp_path.glob("checkpoint-*"))
    assert f'"plan.train.250":"{slices_of(tight)}"' in state.read_bytes()[:9999].decode("latin1")


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({"optimizer": "momentum"}, {"optimizer": "nesterov"}, "with optimizer momentum, this one"),
        ({}, {"optimizer": "sgd"}, "with optimizer adam, this one has sgd"),
        ({}, {"accumulate": 2}, "with accumulate off, this one has on"),
        ({"average": 0.9}, {"average": 0}, "with average on, this one has off"),
        ({"optimizer": "rmsprop"}, {"centered": True}, "with centered off, this one has on"),
        ({"optimizer": "rmsprop"}, {"momentum": 0.9}, "with momentum off, this one has on"),
        ({}, {"loss": "mse"}, "with loss cross_entropy, this one has mse"),
        (
            {},
            {"batch": 10},
            "40 rows in batches of 20, shuffled; these data are 40 rows in batches of 10",
        ),
        ({}, {"shuffle": False}, "shuffled; these data are 40 rows in batches of 20, in order"),
    ],
)
def test_what_changed_is_named_at_resume(tmp_path, before, after, text):
    one_hot = lambda y: np.eye(2, dtype="float32")[y]
    x, y = spirals(40)
    options = {"epochs": 2, "folder": tmp_path, "batch": 20} | before
    quiet(small_model(), (x, one_hot(y)), **options)
    model = small_model()
    start = values(model)
    with pytest.raises(ValueError, match=text) as caught:
        quiet(model, (x, one_hot(y)), resume=True, **(options | after))
    assert "or begin a new training in another folder" in str(caught.value)
    same_values(values(model), start)


def test_data_and_frozen_layers_that_changed_are_named_at_resume(tmp_path):
    quiet(small_model(), spirals(40), epochs=2, folder=tmp_path)
    with pytest.raises(
        ValueError, match="on 40 rows in batches of 32, shuffled; these data are 50"
    ):
        quiet(small_model(), spirals(50), epochs=2, folder=tmp_path, resume=True)
    x, y = spirals(40)
    with pytest.raises(ValueError, match=r"rows of float32 \(2,\); int64 \(\); these are"):
        quiet(small_model(), (x, y.astype("int32")), epochs=2, folder=tmp_path, resume=True)
    model = small_model()
    model[0].freeze()
    with pytest.raises(ValueError, match=r"also trained 0.weight, 0.bias(.|\n)*unfreeze the same"):
        quiet(model, (x, y), epochs=2, folder=tmp_path, resume=True)
    # Another rate is no other training.
    quiet(small_model(), (x, y), epochs=3, folder=tmp_path, resume=True, rate=0.1, beta1=0.8)


def test_reprs():
    data = spirals(40)
    options = {"epochs": 3, "metrics": ["accuracy"], "validation": spirals(20, 1)}
    history = quiet(small_model(), data, **options)
    lines = repr(history).splitlines()
    assert lines[0].split() == [
        "epoch",
        "loss",
        "accuracy",
        "validation_loss",
        "validation_accuracy",
    ]
    assert len(lines) == 5 and lines[-1] == "3 epochs"
    assert lines[history.best_epoch].endswith("  best")
    assert len({line.removesuffix("  best").__len__() for line in lines[:-1]}) == 1
    assert re.fullmatch(
        r"<epoch 1: loss [\d.]+ [\d.]+, validation_loss [\d.]+ [\d.]+, 2 steps, best>",
        repr(history.epochs[0]),
    )
    short = repr(quiet(small_model(), data, epochs=30)).splitlines()
    assert len(short) == 13 and short[6].strip() == "..." and short[-1] == "30 epochs"


def test_resume_from_the_last_step_of_an_epoch(tmp_path):
    """Its checkpoint is made before the epoch is evaluated."""
    options = {"batch": 10, "epochs": 3, "checkpoint_steps": 5, "validation": spirals(30, 1)}

    def fail(epoch):
        if epoch.number == 2:
            raise RuntimeError("after the steps, before the checkpoint of the epoch")

    with pytest.raises(RuntimeError, match="after the steps"):
        quiet(small_model(), spirals(100), folder=tmp_path / "parts", on_epoch=fail, **options)
    resumed, whole = small_model(), small_model()
    history = quiet(resumed, spirals(100), folder=tmp_path / "parts", resume=True, **options)
    assert history.resumed_from.endswith("20.safetensors")
    wanted = quiet(whole, spirals(100), folder=tmp_path / "whole", **options)
    assert [e.step for e in history.epochs] == [10, 20, 30]
    assert history["loss"] == wanted["loss"]
    same_files(tmp_path / "whole", tmp_path / "parts")


def test_masks_go_on_from_a_checkpoint(tmp_path):
    """A new process prunes other values, or nothing: the masks are those of the checkpoint."""
    options = {"batch": 16, "epochs": 4, "folder": tmp_path}
    model = small_model()
    nn.prune(model, 0.5)
    quiet(model, spirals(100), **{**options, "epochs": 2})
    zeros = values(model)["0.weight"] == 0
    assert zeros.sum() == 16
    again = small_model()
    nn.prune(again, 0)
    quiet(again, spirals(100), resume=True, **options)
    np.testing.assert_array_equal(values(again)["0.weight"] == 0, zeros)

    with pytest.raises(ValueError, match=r"of a pruned model(.|\n)*prune\(model, 0\)"):
        quiet(small_model(), spirals(100), resume=True, **options)
    quiet(small_model(), spirals(100), epochs=1, folder=tmp_path / "other")
    with pytest.raises(ValueError, match="that was not pruned"):
        quiet(again, spirals(100), epochs=1, folder=tmp_path / "other", resume=True)
    with pytest.raises(ValueError, match="pruned for the first time during its training"):
        late = small_model()
        quiet(late, spirals(100), on_epoch=lambda e: nn.prune(late, 0.5))


def test_the_best_epoch_has_its_own_masks(tmp_path):
    for folder in (None, tmp_path):
        model = small_model()
        nn.prune(model, 0)
        seen = {}

        def prune_more(epoch, model=model, seen=seen):
            seen[epoch.number] = values(model)
            nn.prune(model, 0.3 * epoch.number)

        history = quiet(
            model,
            spirals(60),
            epochs=3,
            monitor="loss",
            rate=0.01,
            on_epoch=prune_more,
            restore_best=True,
            folder=folder,
        )
        assert len(seen) == 3
        same_values(values(model), seen[history.best_epoch])
    state = snug.io.load(max(tmp_path.glob("checkpoint-*")))
    mask = state["mask/0.weight"]
    assert not mask.all() and not state["0.weight"][~mask].any()
    best = snug.io.load(tmp_path / "best.safetensors")
    assert best["mask/0.weight"].sum() > mask.sum()


@pytest.mark.parametrize("folder", [False, True])
def test_averages_are_evaluated_and_kept(tmp_path, folder):
    x, y = spirals(64)
    options = {"batch": 16, "epochs": 4, "shuffle": False, "optimizer": "sgd", "rate": 0.3}
    model, plain = small_model(), small_model()
    nn.prune(model, 0.25)
    nn.prune(plain, 0.25)
    decay, average, losses = 0.8, values(plain), []
    tx, ty = T.fmatrix(), T.lvector()
    loss = nn.cross_entropy(plain(tx, training=True), ty)
    updates = nn.masked(snug.optim.sgd(loss, plain.parameters(), 0.3), plain)
    step = snug.function([tx, ty], loss, updates=updates)
    shadow = small_model()
    for _ in range(4):
        for k in range(0, 64, 16):
            step(x[k : k + 16], y[k : k + 16])
            for name, v in values(plain).items():
                average[name] = decay * average[name] + (1 - decay) * v
        for name, v in shadow.state().items():
            v.set_value(average[name].astype("float32"))
        losses.append(nn.evaluate(shadow, (x, y), batch=16)["loss"])

    where = {"folder": tmp_path, "restore_best": True} if folder else {"restore_best": True}
    history = quiet(model, (x, y), validation=(x, y), average=decay, **options, **where)
    np.testing.assert_allclose(history["validation_loss"], losses, rtol=1e-5)
    assert history.best_epoch == 4
    for name, v in values(model).items():
        np.testing.assert_allclose(v, average[name], rtol=1e-5, atol=1e-6)
    assert (values(model)["0.weight"] == 0).sum() == 8
    if folder:
        same_values(snug.io.load(tmp_path / "model.safetensors"), values(model))


def train_weighted(folder):
    """Weights of rows and classes, a ragged last batch, half an accumulated weight."""
    x, y = spirals(150)
    weights = np.random.default_rng(2).uniform(0, 2, 150)
    nn.fit(
        small_model(dropout=0.3),
        (x, y, weights),
        batch=8,
        epochs=5,
        accumulate=3,
        class_weight=[1, 3],
        validation=(x[:30], y[:30], weights[:30]),
        checkpoint_steps=3,
        folder=folder,
        resume=True,
    )


def train_within_budget(folder):
    memory, _, _ = budgets()
    data = spirals(2600)
    options = {**IN_SLICES, "memory": memory, "validation": spirals(260, 1), "epochs": 8}
    nn.fit(wide_model(), data, checkpoint_steps=3, folder=folder, resume=True, **options)


def everything_model():
    layers = [nn.Dense(16), nn.BatchNorm(), nn.Activation("relu"), nn.Dropout(0.3), nn.Dense(2)]
    model = nn.Sequential(*layers).build((None, 2))
    nn.prune(model, 0.2)
    return model


def fit_resumed(model, folder, **options):
    more = {"epochs": 6, "validation": spirals(30, 1), "checkpoint_steps": 3, "resume": True}
    nn.fit(model, spirals(160), batch=8, folder=folder, **more, **options)


def train_dropout(folder):
    fit_resumed(small_model(dropout=0.3), folder)


def train_everything(folder):
    """Running statistics, random states, half an accumulated gradient, averages, masks."""
    model = everything_model()

    def prune_more(epoch):
        nn.prune(model, 0.2 + 0.1 * epoch.number)

    fit_resumed(
        model,
        folder,
        optimizer="adamw",
        accumulate=4,
        average=0.9,
        clip_global_norm=1.0,
        rate=snug.optim.one_cycle(0.02, 30),
        on_epoch=prune_more,
    )


KILLED = "import sys; sys.path.insert(0, {!r}); import test_fit; test_fit.{}(sys.argv[1])"


def start_training(training, folder):
    code = KILLED.format(str(pathlib.Path(__file__).parent), training.__name__)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stderr=subprocess.PIPE, text=True
    )


def finish(process):
    _, text = process.communicate()
    assert process.returncode == 0, text
    return text


@pytest.mark.parametrize(
    "training", [train_dropout, train_everything, train_weighted, train_within_budget]
)
def test_kill_9_at_any_moment(training, tmp_path):
    finish(start_training(training, tmp_path / "whole"))
    killed = tmp_path / "killed"
    kills = 0
    for step in np.sort(np.random.default_rng(0).integers(1, 90, 3)):
        process = start_training(training, killed)
        while process.poll() is None:
            made = [int(re.findall(r"\d+", p.name)[0]) for p in killed.glob("checkpoint-*")]
            if made and max(made) >= step:
                process.send_signal(signal.SIGKILL)
                break
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    assert kills > 0
    text = finish(start_training(training, killed))
    assert "resumed from" in text
    same_files(tmp_path / "whole", killed)


def test_ctrl_c_saves_and_returns(tmp_path):
    options = {"batch": 16, "epochs": 5}
    whole = small_model(dropout=0.3)
    quiet(whole, spirals(100), folder=tmp_path / "whole", **options)

    def press(epoch):
        if epoch.number == 2:
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()

    history = quiet(
        small_model(dropout=0.3),
        spirals(100),
        folder=tmp_path / "stopped",
        on_epoch=press,
        **{**options, "epochs": 100_000},
    )
    assert history.interrupted and 2 <= len(history.epochs) < 100_000
    resumed = small_model(dropout=0.3)
    epochs = len(history.epochs) + 1
    wanted = small_model(dropout=0.3)
    options["epochs"] = epochs
    quiet(resumed, spirals(100), folder=tmp_path / "stopped", resume=True, **options)
    quiet(wanted, spirals(100), **options)
    same_values(values(resumed), values(wanted))


# ---- what one sees


def test_a_line_per_epoch(capfd):
    nn.fit(small_model(), spirals(40), epochs=2, metrics=["accuracy"])
    text = capfd.readouterr().err
    assert all(len(line) <= 80 for line in text.splitlines())
    first, second = re.split(r"\n(?=epoch)", text)
    assert second.startswith("epoch 2/2  loss ")
    assert re.fullmatch(
        r"epoch 1/2 loss \d\.\d+ accuracy [01]\.\d+ [\d.]+ \w+ \d+ rows/s "
        r"memory [\d.]+ \w+ best",
        " ".join(first.split()),
    )


def test_a_bar_on_request(capfd):
    nn.fit(small_model(), spirals(40), epochs=1, metrics=["accuracy"], progress="bar")
    text = capfd.readouterr().err
    assert "\r\x1b[Kepoch 1/1 step 1/2 " in text
    assert "rows/s" in text and "ETA 0:0" in text


def test_errors():
    data = spirals(40)
    with pytest.raises(ValueError, match='did you mean "cross_entropy"'):
        quiet(small_model(), data, loss="cross_entrop")
    with pytest.raises(TypeError, match="did you mean 'weight_decay'"):
        quiet(small_model(), data, weight_deca=1)
    with pytest.raises(ValueError, match="no folder to resume from"):
        quiet(small_model(), data, resume=True)
    with pytest.raises(ValueError, match='no epoch has a "validation_loss"'):
        quiet(small_model(), data, monitor="validation_loss")
    with pytest.raises(TypeError, match="a int is no data"):
        quiet(small_model(), 3)
    with pytest.raises(ValueError, match="1 fields"):
        quiet(small_model(), data[:1])
    with pytest.raises(TypeError, match="one number per batch"):
        quiet(small_model(), data, metrics=[lambda p, y: p])
    with pytest.raises(ZeroDivisionError):
        quiet(small_model(), data, on_epoch=lambda e: 1 / 0)


# ---- search


def test_search_compiles_each_graph_once():
    made = []

    def make(units):
        made.append(units)
        return small_model(units)

    grid = {"rate": [0.3, 0.001], "units": [4, 8], "batch": [8, 16]}
    result = nn.search(
        make, spirals(80), grid, epochs=3, validation=spirals(40, 1), progress="silent"
    )
    assert len(result.trials) == 8 and len(made) == 8 and result.compiled == 2
    assert result.trials[0].choice == {"rate": 0.3, "units": 4, "batch": 8}
    assert result.best.value == min(t.value for t in result.trials)
    # A run of its own gives the same bits.
    for trial in result.trials[3], result.best:
        choice = dict(trial.choice)
        model = small_model(choice.pop("units"))
        alone = quiet(
            model, spirals(80), epochs=3, validation=spirals(40, 1), restore_best=True, **choice
        )
        assert alone["validation_loss"] == trial.history["validation_loss"]
    same_values(values(model), result.parameters)


def test_images_of_classes_are_learned_by_their_channels():
    """A segmentation: as many classes as columns would hide a wrong axis."""
    rng = np.random.default_rng(0)
    x = rng.random((16, 1, 4, 3), np.float32)
    y = (x[:, 0] > 0.5).astype("int64") + (x[:, 0] > 0.8)
    model = nn.Sequential(nn.Conv2d(8, 1, activation="relu"), nn.Conv2d(3, 1))
    metrics = ["accuracy", "mean_error", "top_k_accuracy"]
    history = quiet(model.build((None, 1, 4, 3)), (x, y), epochs=60, rate=0.05, metrics=metrics)
    assert history["accuracy"][-1] > 0.9
    assert history["mean_error"][-1] == pytest.approx(1 - history["accuracy"][-1], abs=1e-6)
    assert history["top_k_accuracy"][-1] == 1


def test_labels_below_zero_are_refused():
    x, y = spirals()
    with pytest.raises(
        IndexError, match=r"cross_entropy: label -1 of row \d+ is not one of the 2 classes 0 to 1"
    ):
        quiet(small_model(), (x, y - 1))


def test_a_loss_that_is_nan_ends_the_training_and_keeps_checkpoints(tmp_path):
    x, y = spirals()
    model = small_model()
    quiet(model, (x, y), epochs=1, folder=tmp_path)
    saved = sorted(p.name for p in tmp_path.iterdir())
    x[3] = np.nan
    with pytest.raises(ValueError, match="other training data"):
        quiet(model, (x, y), epochs=2, folder=tmp_path, resume=True)
    with pytest.raises(ValueError, match="the loss of epoch 2 is nan"):
        quiet(model, (x, y), epochs=2, folder=tmp_path, resume=True, accept="data")
    assert sorted(p.name for p in tmp_path.iterdir()) == saved


def test_batches_of_large_images():
    x, y = np.zeros((40, 3, 400, 400), np.float32), np.zeros(40, int)  # 73 MiB
    model = nn.Sequential(nn.GlobalAveragePool(), nn.Dense(2)).build((None, 3, 400, 400))
    assert quiet(model, (x, y), epochs=1, batch=40).epochs[0].step == 1


def test_data_without_rows():
    x, y = spirals()
    with pytest.raises(ValueError, match="training data have no rows"):
        quiet(small_model(), (x[:0], y[:0]))
    with pytest.raises(ValueError, match="validation data have no rows"):
        quiet(small_model(), (x, y), validation=(x[:0], y[:0]))


def test_names_of_other_libraries():
    x, y = spirals()
    with pytest.raises(TypeError, match="did you mean 'rate'"):
        quiet(small_model(), (x, y), lr=0.1)
    with pytest.raises(TypeError, match="optimizer is a name"):
        quiet(small_model(), (x, y), optimizer=snug.optim.adam)
    with pytest.raises(AttributeError, match=r"it is snug\.nn\.Dense here"):
        nn.Linear  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean"):
        nn.Dens  # noqa: B018


def test_networks_with_batch_norm_are_offered_to_join_batches():
    """Slices are no way for them; smaller batches with one update for several are."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(256, 20)).astype("float32"), rng.integers(0, 3, 256)

    def model():
        layers = [nn.Dense(200), nn.BatchNorm(), nn.Dense(3)]
        return nn.Sequential(layers).build((None, 20))

    whole = {"batch": 256, "optimizer": "sgd"}
    memory = nn.plan(model(), data, **whole).peak // 2
    for work in (quiet, nn.plan):
        with pytest.raises(MemoryError, match="slices are no way") as refused:
            work(model(), data, memory=memory, **whole)
        rows, steps, seen = map(
            int,
            re.search(
                r"a batch of (\d+), accumulate=(\d+) .*batch norm sees (\d+) rows",
                str(refused.value),
            ).groups(),
        )
        assert rows == seen and steps > 1 and 256 <= rows * steps < 256 + steps
    joined = {"batch": rows, "accumulate": steps, "optimizer": "sgd", "memory": memory}
    assert nn.plan(model(), data, **joined).peak <= memory
    assert len(quiet(model(), data, epochs=1, **joined).epochs) == 1
    with pytest.raises(MemoryError) as refused:
        quiet(model(), data, memory=memory, accumulate=2, **whole)
    assert "accumulate=" not in str(refused.value)
