"""`snug plan` and `snug fit` on the command line."""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import snug
import snug.tensor as T
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
    step = ("plan", "lenet", "--batch", 512, "--optimizer", "momentum")
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
        assert again["fits"]
        if name == "--memory":  # rounded up: to be typed
            assert re.fullmatch(r"--memory [\d.]{1,4}MiB( --\w+)?", remedy["flag"])
            assert remedy["peak"] <= again["budget"] <= 1.01 * remedy["peak"]
        else:
            assert again["bytes"]["peak"] == remedy["peak"]


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
    smallest = [r for r in refused["remedies"] if r["flag"].endswith(" --recompute")]
    assert smallest[0]["peak"] == refused["bytes"]["smallest"]
    assert planned(*step, *smallest[0]["flag"].split())["fits"]


def test_images_may_be_too_small():
    for size in (1, 3):
        text = run("plan", "lenet", "--size", size, status=1).stderr
        assert f"lenet takes no images of {size} x {size}: " in text and "larger --size" in text
        assert ".cpp" not in text and "ignore_border" not in text


def test_no_row_fits():
    found = planned("fit", "mlp", "--memory", 10, status=1)
    assert not found["fits"] and found["batch"] == 0 and found["bytes"]["peak"] > 10
    assert all(way["batch"] == 0 for way in found["ways"])


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
    rows = planned("fit", "lenet", "--memory", "8MiB")["largest"]
    step = ("plan", "lenet", "--memory", "8MiB", "--fit", "--batch")
    refused = planned(*step, 4 * rows, status=1)
    assert refused["remedies"][0]["flag"] == f"--batch {rows}"
    assert planned(*step, rows)["bytes"]["peak"] == refused["remedies"][0]["peak"]


def test_the_largest_batch_of_each_way():
    found = planned("fit", "lenet", "--memory", "8MiB")
    ways = {way["way"]: way for way in found["ways"]}
    assert list(ways) == ["as it is", "recompute", "slices"]
    rows = [way["batch"] for way in ways.values()]
    assert 1 < rows[0] <= rows[1] <= rows[2] == found["largest"]
    for way in ways.values():
        assert way["peak"] <= 8 << 20
        assert way["seconds_per_row"] == pytest.approx(way["seconds"] / way["batch"])
    # Each is the largest, by the flags of `snug plan`.
    for flags, way in (([], "as it is"), (["--recompute"], "recompute"), (["--fit"], "slices")):
        step = ("plan", "lenet", "--memory", "8MiB", *flags, "--batch")
        assert planned(*step, ways[way]["batch"])["fits"]
        assert not planned(*step, ways[way]["batch"] + 1, status=1)["fits"]


def test_the_batch_to_take_is_where_more_rows_gain_nothing():
    found = planned("fit", "lenet", "--memory", "8MiB")
    advised = found["advised"]
    assert found["batch"] == advised["batch"] and found["bytes"]["peak"] == advised["peak"]
    as_it_is = found["ways"][0]
    assert 1 <= advised["batch"] <= as_it_is["batch"] and advised["techniques"] == []
    for rows in (min(2 * advised["batch"], as_it_is["batch"]), as_it_is["batch"]):
        larger = planned("plan", "lenet", "--batch", rows)["seconds_predicted"] / rows
        assert larger >= 0.96 * advised["seconds_per_row"]
    if advised["batch"] > 1:
        smaller = planned("plan", "lenet", "--batch", advised["batch"] // 2)["seconds_predicted"]
        assert smaller / (advised["batch"] // 2) > advised["seconds_per_row"]


def test_the_table_of_batches():
    lines = run("fit", "lenet", "--memory", "8MiB").stdout.splitlines()
    assert lines[0] == "lenet  1x28x28  float32  training with adam  cpu, budget 8.00 MiB"
    assert lines[1].split() == ["way", "batch", "memory", "per", "row", "step"]
    time = r"[\d.]+ (us|ms|s|min|h|days)"
    for line, way in zip((lines[2], lines[3], lines[5]), ("as it is", "recompute", "slices")):
        assert re.fullmatch(rf"  {way} +\d+ +[\d.]+ MiB +{time} +{time}", line), line
    assert lines[4] == "    tasks run again" and lines[6].startswith("    in 512 slices")
    assert re.match(r"advised: batch \d+ as it is; \S", lines[7])
    assert "snug plan lenet --batch" in lines[8] and all(len(line) <= 80 for line in lines)
    none = run("fit", "vgg16", "--memory", "1MiB", status=1).stdout
    assert "not even one row fits" in none


def test_batch_norm_is_no_way_but_accumulation_is():
    step = ("plan", "mobilenet", "--size", 32, "--batch", 64)
    plain = planned(*step)["bytes"]
    refused = run(*step, "--memory", plain["peak"] * 3 // 4, status=1).stdout
    flags = re.search(
        r"--batch (\d+) --accumulate (\d+) +[\d.]+ MiB .*batch norm sees (\d+)", refused
    )
    rows, steps, seen = map(int, flags.groups())
    assert rows == seen and steps > 1 and 64 <= rows * steps < 64 + steps
    again = ("plan", "mobilenet", "--size", 32, "--batch", rows, "--accumulate", steps)
    assert planned(*again, "--memory", plain["peak"] * 3 // 4)["fits"]


def test_the_batch_of_a_network_with_batch_norm():
    x, y = T.ftensor4("x"), T.ivector("y")
    layers = [nn.Conv2d(4, 3, pad="half"), nn.BatchNorm(), nn.Flatten(), nn.Dense(4)]
    model = nn.Sequential(layers).build((None, 1, 8, 8))
    loss = nn.cross_entropy(model(x, training=True), y)
    updates = snug.optim.sgd(loss, model.parameters(), rate=0.1)
    f = snug.function([x, y], loss, updates=updates, plan_only=True)
    found = snug.max_batch(f, memory="1MiB", x=(1, 1, 8, 8), y=(1,))
    rows, plan = found
    assert [way.name for way in found.ways] == ["as it is", "recompute", "slices"]
    assert found.rows == rows == found.ways[1].rows >= found.ways[0].rows >= found.advised.rows > 0
    assert plan.peak <= 1 << 20 and found.ways[2].rows == 0
    for way in found.ways[:2]:
        assert way.seconds_per_row == way.seconds / way.rows == way.plan.seconds / way.rows
    assert "batch_normalization_train needs a value of the whole batch" in found.ways[2].how
    assert str(found).startswith("  way ") and f"advised: batch {found.advised.rows}" in str(found)
    assert found.why in str(found)
    none = snug.max_batch(f, memory="1KiB", x=(1, 1, 8, 8), y=(1,))
    assert none.rows == none.advised.rows == 0 and "not even one row fits" in str(none)


def test_reports_speak_the_words_of_users():
    # Workspaces differ from CPU to CPU, and so does the step that has most.
    text = run("plan", "lenet", "--batch", 8).stdout
    assert "max_pool backward" in text and "relu" in text
    assert re.search(r"float32 \(8, 6, \d\d, \d\d\) channels last", text) and "layer 1" in text
    for word in ("_last", "switch", "max_unpool", ".cpp", "grad_"):
        assert word not in text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["vgg61"], "did you mean"),
        (["vgg16", "--memory", "4XB"], "'4XB' is no amount of memory"),
        (["vgg16", "--batch", "0"], "--batch: 0 is not between 1 and"),
        (["vgg16", "--batch", "many"], "--batch: many is no whole number"),
        (["vgg16", "--micro-batch", "100", "--batch", "8"], "--micro-batch 100 is more than the 8"),
        (["vgg16", "--train", "adam"], "did you mean --optimizer?"),
        (["vgg16", "--optimizer", "adma"], "did you mean adam?"),
        (["vgg16", "--offload", "/no/such/directory"], "there is no directory"),
        (["mlp", "--recompute"], "--recompute is a way to keep to a budget"),
        (["mlp", "--precision", "bfloat16-activations"], "give the budget"),
    ],
)
def test_wrong_arguments(arguments, text):
    done = subprocess.run([TOOL, "plan", *arguments], capture_output=True, text=True)
    assert done.returncode != 0 and text in done.stderr


def test_nn_plan_plans_the_batch_that_is_asked_for():
    """Of arrays, shapes, sources, loaders; with fewer rows than the batch; nothing is copied."""
    model = nn.Sequential([nn.Dense(64, activation="relu"), nn.Dense(4)]).build((None, 16))
    x, y = np.zeros((256, 16), "float32"), np.zeros(256, "int64")
    wanted = nn.plan(model, (x, y), batch=128)
    assert wanted.inputs == 128 * (16 * 4 + 8)
    huge = 2**40
    same = [
        (x[:8], y[:8]),
        (x[:8].astype("float64"), y[:8]),  # arrives as floatX
        (np.broadcast_to(x[:1], (huge, 16)), np.broadcast_to(y[:1], huge)),
        ((8, 16), (8,)),
        [[8, 16], [8]],
        ((None, 16), (None,)),
        (((60000, 16), "float32"), ((60000,), "int64")),
        (x[:8], (8,)),
        snug.data.arrays(x[:8], y[:8]),
        snug.data.Loader(snug.data.arrays(x[:8], y[:8]), batch=128),
    ]
    numbers = lambda p: (p.inputs, p.arena, p.parameters, p.optimizer, p.peak, p.floor)
    for data in same:
        assert numbers(nn.plan(model, data, batch=128)) == numbers(wanted)
    assert nn.plan(model, (x, y)).inputs == 32 * (16 * 4 + 8)
    assert nn.plan(model, (x[:8], y[:8])).inputs == 8 * (16 * 4 + 8)
    weighted = nn.plan(model, ((None, 16), (None,), (None,)), batch=128)
    assert weighted.inputs == 128 * (16 * 4 + 8 + 4)
    bytes_of_labels = nn.plan(model, ((None, 16), ((None,), "uint8")), batch=128)
    assert bytes_of_labels.inputs == 128 * (16 * 4 + 1)
    regression = nn.plan(model, ((None, 16), (None, 4)), loss="mse", batch=128)
    assert regression.inputs == 128 * (16 * 4 + 4 * 4)
    with pytest.raises(ValueError, match="array 1 has 9 rows, others have 8"):
        nn.plan(model, ((8, 16), (9,)))
    with pytest.raises(ValueError, match="a batch has 0 rows"):
        nn.plan(model, (x, y), batch=0)
    with pytest.raises(TypeError, match="a int is no data"):
        nn.plan(model, 3)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_parameters_are_those_of_the_paper(optimizer):
    """Rates, step counts and states of random numbers are none."""
    published = 138_357_544
    model = nn.make_model("vgg16", input=(3, 224, 224), classes=1000)
    plan = nn.plan(model, ((1, 3, 224, 224), (1,)), optimizer=optimizer)
    assert plan.parameters == 4 * published
    # One rate, with adam a step count, and the counters of two layers of dropout.
    states, numbers = {"sgd": (0, 3), "adam": (2, 4)}[optimizer]
    assert plan.optimizer == 4 * published * states + 8 * numbers
    done = subprocess.run(
        [TOOL, "plan", "vgg16", "--batch", "1", "--optimizer", optimizer, "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f'"parameters": {4 * published}' in done.stdout


@pytest.mark.parametrize("command", ["plan", "fit", "train", "predict", "pack", "ops", "cache"])
def test_help_fits_a_terminal(command):
    lines = run(command, "--help").stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert not any(word in line for line in lines for word in ("TEXT", "INT:", "REQUIRED"))


def test_options_have_one_name():
    """What an option is called and what it says is the same in every command."""
    texts = {}
    for command in ("plan", "fit", "train"):
        text = run(command, "--help").stdout
        for name, doc in re.findall(r"^  (--[\w-]+)(.*(?:\n {24}.*)*)", text, re.M):
            if name in ("--size", "--help"):
                continue
            assert texts.setdefault(name, doc) == doc, (command, name)
    assert {"--optimizer", "--memory", "--batch", "--precision", "--offload"} <= texts.keys()
    assert not {"--train", "--lr"} & texts.keys()


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


@pytest.mark.parametrize("terminal", [True, False])
def test_measuring_says_so_where_somebody_reads_it(tmp_path, terminal):
    mine, theirs = os.openpty()
    done = subprocess.run(
        [TOOL, "info"],
        stdout=subprocess.PIPE,
        stderr=theirs if terminal else subprocess.PIPE,
        env={**os.environ, "SNUG_CACHE_DIR": str(tmp_path)},
        text=True,
    )
    os.close(theirs)
    assert done.returncode == 0 and "in convolutions" in done.stdout
    if terminal:
        said = os.read(mine, 1 << 16).decode()
        assert "measuring how fast this machine is, once: at most 5 s" in said
        assert said.endswith("\r\x1b[K")  # nothing stays
    else:
        assert done.stderr == ""
    os.close(mine)
