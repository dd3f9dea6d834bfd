"""`snug train` on the command line."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

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


def run(*arguments, status=0):
    done = subprocess.run([TOOL, "train", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done


def test_train_resume_and_load(data, tmp_path):
    pair = f"{data}/x.npy,{data}/y.npy"
    common = ["mlp", "--batch", 16, "--lr", 0.003, "--data"]
    done = run(*common, pair, "--epochs", 3, "--out", tmp_path / "a", "--validation", pair)
    assert done.stdout == f"{tmp_path}/a/model.safetensors\n"
    lines = done.stderr.splitlines()
    assert len(lines) == 3 and "validation_accuracy" in lines[-1]

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


def test_errors(data):
    pair = f"{data}/x.npy,{data}/y.npy"
    assert "did you mean" in run("mlpp", "--data", pair, status=1).stderr
    assert "x is not there" in run("mlp", "--data", data / "x", status=1).stderr
    assert "holds no inputs and labels" in run("mlp", "--data", data / "x.npy", status=1).stderr
    assert "--epochs" in run("mlp", "--data", pair, "--epochs", 0, status=2).stderr
    assert "give --size" in run("mlp", "--data", data, status=1).stderr
    assert "--optimizer" in run("mlp", "--data", pair, "--optimizer", "x", status=2).stderr
