"""`snug plan` and `snug fit` on the command line."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import snug
from snug import nn

TOOL = pathlib.Path(sys.executable).parent / "snug"


def run(*arguments, status=0):
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def planned(*arguments, status=0):
    return json.loads(run(*arguments, "--json", status=status).stdout)


def test_the_table_says_what_fits():
    text = run("plan", "lenet", "--batch", 64, "--memory", "64MiB").stdout
    for part in ("training with adam", "budget 64.00 MiB", "optimizer state", "peak", "fits:"):
        assert part in text
    assert ".cpp" not in text  # steps are named by layers


def test_every_remedy_holds():
    step = ("plan", "lenet", "--batch", 512, "--train", "momentum")
    plain = planned(*step)
    assert plain["fits"] and plain["budget"] is None and plain["techniques"] == []
    budget = plain["bytes"]["peak"] * 3 // 4
    refused = planned(*step, "--memory", budget, status=1)
    assert refused["bytes"]["peak"] == plain["bytes"]["peak"] and not refused["fits"]
    flags = {r["flag"].split()[0]: r for r in refused["remedies"]}
    assert {"--batch", "--micro-batch", "--memory"} <= flags.keys()
    for name, remedy in flags.items():
        # A later --batch replaces the first one.
        others = [a for a in step if a not in ("--batch", 512)] if name == "--batch" else step
        limit = [] if name == "--memory" else ["--memory", budget]
        again = planned(*others, *limit, *remedy["flag"].split())
        assert again["fits"] and again["bytes"]["peak"] == remedy["peak"]


def test_the_smallest_plan_is_one():
    step = ("plan", "mobilenet", "--size", 64, "--batch", 64)
    numbers = planned(*step)["bytes"]
    assert numbers["floor"] <= numbers["smallest"] < numbers["peak"] / 2
    assert planned(*step, "--memory", numbers["smallest"], "--recompute")["fits"]
    assert not planned(*step, "--memory", numbers["smallest"] - 1, "--recompute", status=1)["fits"]
    assert "smallest plan" in run(*step).stdout


def test_the_smallest_plan_is_that_of_the_slices_chosen():
    found = planned("plan", "lenet", "--batch", 512, "--memory", "8MiB", "--fit")
    numbers = found["bytes"]
    assert any(t.startswith("micro-batch") for t in found["techniques"])
    assert numbers["floor"] <= numbers["smallest"] <= numbers["peak"]


def test_more_memory_may_be_the_smallest_plan():
    step = ("plan", "mlp", "--batch", 1000)
    refused = planned(*step, "--memory", "10MiB", status=1)
    smallest = f"--memory {refused['bytes']['smallest']} --recompute"
    assert smallest in [r["flag"] for r in refused["remedies"]]
    assert planned(*step, *smallest.split())["fits"]


def test_images_may_be_too_small():
    for size in (1, 3):
        text = run("plan", "lenet", "--size", size, status=1).stderr
        assert f"lenet takes no images of {size} x {size}: " in text and "larger --size" in text
        assert ".cpp" not in text and "ignore_border" not in text


def test_no_row_fits():
    found = planned("fit", "mlp", "--memory", 10, status=1)
    assert not found["fits"] and found["batch"] == 0 and found["bytes"]["peak"] > 10


def test_fit_applies_the_best():
    step = ("plan", "resnet18", "--size", 64, "--batch", 64)
    plain = planned(*step)["bytes"]
    best = planned(*step, "--memory", (plain["peak"] + plain["smallest"]) // 2, "--fit")
    assert best["fits"] and best["techniques"] == ["recompute"]  # batch norm rules out slices
    assert best["seconds_predicted"] > planned(*step)["seconds_predicted"]


def test_what_cannot_be_is_told_as_flags():
    done = run("plan", "vgg16", "--memory", "100MiB", "--fit", status=1)
    assert "does not fit" in done.stdout and "--memory " in done.stdout and not done.stderr


def test_the_batch_to_fit_counts_slices():
    rows = planned("fit", "lenet", "--memory", "8MiB")["batch"]
    step = ("plan", "lenet", "--memory", "8MiB", "--fit", "--batch")
    refused = planned(*step, 4 * rows, status=1)
    assert refused["remedies"][0]["flag"] == f"--batch {rows}"
    assert planned(*step, rows)["bytes"]["peak"] == refused["remedies"][0]["peak"]


def test_the_largest_batch():
    found = planned("fit", "lenet", "--memory", "8MiB", "--infer")
    assert found["fits"] and found["bytes"]["peak"] <= 8 << 20
    text = run("fit", "lenet", "--memory", "8MiB", "--infer").stdout
    assert f"the largest batch that fits is {found['batch']}" in text
    assert "not even one row fits" in run("fit", "vgg16", "--memory", "1MiB", status=1).stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["vgg61"], "did you mean"),
        (["vgg16", "--memory", "4XB"], "'4XB' is no amount of memory"),
        (["vgg16", "--batch", "0"], "not in range"),
        (["mlp", "--recompute"], "--recompute is a way to keep to a budget"),
        (["mlp", "--precision", "bfloat16-activations"], "give the budget"),
    ],
)
def test_wrong_arguments(arguments, text):
    done = subprocess.run([TOOL, "plan", *arguments], capture_output=True, text=True)
    assert done.returncode != 0 and text in done.stderr


def test_nn_plan_is_what_fit_takes():
    model = nn.Sequential([nn.Dense(64, activation="relu"), nn.Dense(4)])
    x, y = np.zeros((96, 16), "float32"), np.zeros(96, "int64")
    how = {"batch": 32, "rate": 0.1, "optimizer": "momentum"}
    plan = nn.plan(model, (x, y), **how)
    assert plan.optimizer >= 4 * (16 * 64 + 64 + 64 * 4 + 4)
    seen = []
    look = lambda epoch: seen.append(snug.process_memory().arenas)
    nn.fit(model, (x, y), epochs=1, progress="silent", on_epoch=look, **how)
    assert seen[0] >= plan.arena
    with pytest.raises(MemoryError, match="what fits"):
        nn.plan(model, (x, y), memory="1KiB", **how)
    with pytest.raises(TypeError, match="no option 'lr'"):
        nn.plan(model, (x, y), lr=0.1)
