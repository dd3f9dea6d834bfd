"""`snug train` on the command line."""

import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import snug

TOOL = pathlib.Path(sys.executable).parent / "snug"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Images whose class is the bright third, as two .npy files and as one .npz file."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 120).astype("uint8")
    images = rng.integers(0, 100, (120, 6, 6)).astype("uint8")
    for image, label in zip(images, labels):
        image[2 * label : 2 * label + 2] += 120
    np.save(folder / "x.npy", images)
    np.save(folder / "y.npy", labels)
    np.savez(folder / "both.npz", x=images, y=labels)
    return folder


def run(*arguments, status=0, command="train", folder=None):
    done = subprocess.run(
        [TOOL, command, *map(str, arguments)], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == status, done.stderr
    return done


def epochs_of(done):
    return [line for line in done.stderr.splitlines() if line.startswith("epoch ")]


def test_train_resume_and_load(data, tmp_path):
    pair = f"{data}/x.npy,{data}/y.npy"
    common = ["mlp", "--batch", 16, "--rate", 0.003, "--data"]
    done = run(*common, pair, "--epochs", 3, "--out", tmp_path / "a", "--validation", pair)
    assert done.stdout == f"{tmp_path}/a/model.safetensors\n"
    assert len(epochs_of(done)) == 3
    assert all(len(line) <= 80 for line in done.stderr.splitlines() if "loss" in line)
    last = done.stderr.splitlines()[-2]
    assert re.fullmatch(
        r" {9}  validation_loss \d\.\d{4}  validation_accuracy \d\.\d{4}( +best)?", last
    )

    more = ["--out", tmp_path / "b", "--validation", pair, "--resume"]
    run(*common, pair, "--epochs", 1, *more)
    done = run(*common, f"{data}/both.npz", "--epochs", 3, *more)
    assert "resumed from" in done.stderr
    names = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert names == sorted(p.name for p in (tmp_path / "b").iterdir())
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name

    model = snug.nn.make_model("mlp", input=(1, 6, 6), classes=3)
    snug.nn.load(model, tmp_path / "a" / "model.safetensors")
    saved = snug.nn.load_model(tmp_path / "a" / "model.safetensors")
    assert saved[1:] == ("mlp", (1, 6, 6), ["0", "1", "2"], True)
    for name, value in model.state().items():
        np.testing.assert_array_equal(saved.model.state()[name].get_value(), value.get_value())
    snug.nn.save(model, tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match="does not say which model it is of"):
        snug.nn.load_model(tmp_path / "b.safetensors")


def test_a_folder_is_not_written_over(data, tmp_path):
    pair = f"{data}/x.npy,{data}/y.npy"
    run("mlp", "--data", pair, "--epochs", 1, folder=tmp_path)
    assert (tmp_path / "snug-mlp" / "model.safetensors").exists()
    before = {p.name: p.read_bytes() for p in (tmp_path / "snug-mlp").iterdir()}
    done = run("mlp", "--data", pair, "--epochs", 1, status=1, folder=tmp_path)
    assert "snug-mlp has checkpoints of a training" in done.stderr
    assert {p.name: p.read_bytes() for p in (tmp_path / "snug-mlp").iterdir()} == before


def test_arrays_of_a_file_in_any_order(data, tmp_path):
    x, y = np.load(data / "x.npy"), np.load(data / "y.npy")
    np.savez(tmp_path / "a.npz", labels=y, rows=x, more=np.zeros(3))
    common = ["mlp", "--epochs", 1, "--out", tmp_path / "a", "--data"]
    done = run(*common, f"{tmp_path}/a.npz:labels,rows", "--precision", "bfloat16")
    assert "108 rows to train on, 12 held out" in done.stderr
    np.savez(tmp_path / "b.npz", labels=y, rows=x, more=y)
    assert "b.npz:INPUTS,LABELS" in run(*common, tmp_path / "b.npz", status=1).stderr
    y = y.astype("int64")
    y[3] = -1
    np.savez(tmp_path / "c.npz", x=x, y=y)
    assert (
        "row 3 has the label -1"
        in run(*common, tmp_path / "c.npz", "--validation", 0, status=1).stderr
    )


def test_refusals_speak_flags(data, tmp_path):
    command = ["mlp", "--data", f"{data}/x.npy,{data}/y.npy", "--batch", 96, "--validation", 0]
    command += ["--epochs", 1, "--out", tmp_path / "a"]
    refused = run(*command, "--memory", "2MiB", status=1).stderr
    for other in ('memory="', "micro_batches=", "recompute=", ".cpp", ".h:", "axis 0"):
        assert other not in refused, refused
    assert "layer " in refused
    offered = re.findall(r"^  (--memory [\d.]+[KMG]iB)", refused, re.MULTILINE)
    assert offered and not (tmp_path / "a" / "model.safetensors").exists()
    for flags in offered:
        shutil.rmtree(tmp_path / "a", ignore_errors=True)
        run(*command, *flags.split())


def test_settings_of_the_environment(data, tmp_path, monkeypatch):
    command = ["mlp", "--data", f"{data}/x.npy,{data}/y.npy", "--epochs", 1, "--out", tmp_path]
    monkeypatch.setenv("SNUG_FLAGS", "memory=100KiB")
    refused = run(*command, status=1).stderr
    assert "100.00 KiB" in refused and "raise memory= in SNUG_FLAGS" in refused, refused
    monkeypatch.setenv("SNUG_FLAGS", "thread=1")
    for name, rest in [("train", command), ("plan", ["lenet"])]:
        wrong = run(*rest, status=1, command=name).stderr
        assert "there is no setting 'thread'" in wrong and "did you mean threads?" in wrong


# ---- folders of images


def make_images(folder, classes, count):
    """Images of one colour and noise, of different sizes, half of them JPEG."""
    rng = np.random.default_rng(len(str(folder)))
    for number, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for k in range(count):
            pixels = rng.integers(0, 80, (*rng.integers(10, 60, 2), 3)).astype("uint8")
            pixels[:, :, number] += 120
            ending = "jpg" if k % 2 else "png"
            Image.fromarray(pixels).save(folder / name / f"{k}.{ending}")


COLOURS = ["blue", "green", "red"]  # in the order of their names


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    make_images(folder, COLOURS, 20)
    return folder


def test_a_folder_of_images(pictures, tmp_path):
    common = ["mlp", "--data", pictures, "--size", 8, "--batch", 8, "--flip", "--rate", 0.002]
    done = run(*common, "--epochs", 4, "--out", tmp_path / "a")
    assert "data   54 rows to train on, 6 held out for validation; 3 classes" in done.stderr
    assert "blue, green, red" in done.stderr and "mlp for (3, 8, 8)" in done.stderr
    assert len(epochs_of(done)) == 4
    run(*common, "--epochs", 2, "--out", tmp_path / "b")
    assert "resumed from" in run(*common, "--epochs", 4, "--out", tmp_path / "b", "--resume").stderr
    path = tmp_path / "a" / "model.safetensors"
    assert path.read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()

    files = [
        pictures / name / f"{k}.{end}" for name in COLOURS for k, end in [(0, "png"), (1, "jpg")]
    ]
    lines = run(path, *files, command="predict").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == [str(f) for f in files]
    assert [line.split("\t")[1] for line in lines] == [f.parent.name for f in files]
    assert len(run(path, files[0], "--top", 3, command="predict").stdout.splitlines()) == 3

    saved = snug.nn.load_model(path)
    assert saved[1:] == ("mlp", (3, 8, 8), COLOURS, True)
    x = snug.tensor.tensor4()
    classify = snug.function([x], snug.tensor.nnet.softmax(saved.model(x)))
    images, labels = snug.data.images(pictures, 8).read(0, 60)
    chosen = classify(images.astype(x.dtype) / 255).argmax(axis=1)
    assert (chosen == labels).mean() > 0.9


def test_folders_train_val_and_test(tmp_path):
    for part, count in [("train", 8), ("val", 3), ("test", 2)]:
        make_images(tmp_path / part, COLOURS[:2], count)
    common = ["mlp", "--data", tmp_path, "--size", 8, "--epochs", 1, "--grey"]
    done = run(*common, "--out", tmp_path / "a")
    assert "16 rows to train on, 6 for validation, 4 to test at the end" in done.stderr
    assert "mlp for (1, 8, 8)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("test   loss ")
    make_images(tmp_path / "val", ["yellow"], 1)
    done = run(*common, "--out", tmp_path / "b", status=1)
    assert "has the classes blue, green, yellow, the training data blue, green" in done.stderr


def test_broken_images_are_named(pictures, tmp_path):
    folder = tmp_path / "pictures"
    shutil.copytree(pictures, folder)
    (folder / "red" / "3.jpg").write_bytes((folder / "red" / "3.jpg").read_bytes()[:-50])
    (folder / "blue" / "0.png").write_text("<html>not found</html>")
    common = ["mlp", "--data", folder, "--size", 8, "--epochs", 1, "--out", tmp_path / "a"]
    done = run(*common, status=1)
    assert f"{folder}/blue/0.png: is neither a JPEG nor a PNG image" in done.stderr
    assert f"{folder}/red/3.jpg: is a damaged JPEG image" in done.stderr
    assert "--skip-broken" in done.stderr and done.stdout == ""
    done = run(*common, "--skip-broken")
    assert f"{folder}/red/3.jpg: is a damaged" in done.stderr and "52 rows to train" in done.stderr


def test_folders_that_are_no_classes(pictures, tmp_path):
    out = ["--out", tmp_path / "a"]
    done = run("lenet", "--data", pictures, "--size", 4, *out, status=1)
    assert "lenet does not work on (3, 4, 4)" in done.stderr and "larger --size" in done.stderr
    done = run("mlp", "--data", pictures / "red", *out, status=1)
    assert "have no classes" in done.stderr and "FOLDER/cat/1.jpg" in done.stderr
    make_images(tmp_path / "one", ["red"], 1)
    assert "one class alone: red" in run("mlp", "--data", tmp_path / "one", *out, status=1).stderr
    assert (
        "--validation is 1.5"
        in run("mlp", "--data", pictures, "--validation", 1.5, *out, status=1).stderr
    )


def test_errors(data):
    pair = f"{data}/x.npy,{data}/y.npy"
    assert "did you mean" in run("mlpp", "--data", pair, status=2).stderr
    assert "x is not there" in run("mlp", "--data", data / "x", status=1).stderr
    assert "holds no inputs and labels" in run("mlp", "--data", data / "x.npy", status=1).stderr
    assert "--epochs" in run("mlp", "--data", pair, "--epochs", 0, status=2).stderr
    assert "has no images" in run("mlp", "--data", data, status=1).stderr
    assert "--optimizer" in run("mlp", "--data", pair, "--optimizer", "x", status=2).stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--rate", -1], "--rate: -1 is not above 0"),
        (["--rate", "fast"], "--rate: fast is no number"),
        (["--lr", 0.1], "did you mean --rate?"),
        (["--threads", -1], "--threads: -1 is not between 1 and"),
        (["--memory", "much"], "'much' is no amount of memory"),
        (["--monitor", "acuracy"], "did you mean accuracy?"),
        (["--classes", 0], "--classes: 0 is not between 2 and"),
        (["--offload", "/no/such/place", "--memory", "1GiB"], "there is no directory"),
        (["--offload", "."], "--offload is a way to keep to a budget"),
    ],
)
def test_wrong_options_are_refused_before_data_are_read(arguments, text, tmp_path):
    status = 1 if "budget" in text else 2
    done = run("mlp", "--data", "/not/there", *arguments, status=status, folder=tmp_path)
    assert text in done.stderr and "/not/there" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("model", ["autoencoder", "unet", "fcn8", "segnet"])
def test_models_it_cannot_train_are_refused_before_data_are_read(model):
    text = run(model, "--data", "/not/there", status=1).stderr
    assert f"train: {model} (" in text and "gives no class per row" in text
    assert "vgg16" in text and "/not/there" not in text
