"""Activations that are kept for the backward part in bfloat16."""

import json
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
ROWS = 200


def two_layers(**options):
    """A loss and its gradients; the hidden layer is nearly all that is kept."""
    rng = np.random.default_rng(3)
    x = T.fmatrix("x")
    w1 = snug.shared(rng.standard_normal((16, 2048)).astype("float32"), "w1")
    w2 = snug.shared(rng.standard_normal((2048, 8)).astype("float32"), "w2")
    loss = T.sqr(T.dot(T.nnet.relu(T.dot(x, w1)), w2)).sum()
    return snug.function([x], [loss, *T.grad(loss, [w1, w2])], **options), w1, w2


def rows():
    return np.random.default_rng(4).standard_normal((ROWS, 16), "float32")


def planned(**options):
    return two_layers(plan_only=True, **options)[0].memory(x=(ROWS, 16))


WHOLE = {"micro_batches": 1, "recompute": False}


def test_only_gradients_are_rounded():
    budget = planned().peak - 1
    exact, w1, w2 = two_layers()
    f, *_ = two_layers(memory=budget, activations="bfloat16", **WHOLE)
    report = f.memory(x=(ROWS, 16))
    assert report.rounded and report.as_dict()["rounded"] == report.rounded
    assert report.peak <= budget and "lossy" in str(report)
    x = rows()
    want, got = exact(x), f(x)
    assert got[0] == want[0]
    # Its sign, which the derivative of relu asks for, is exact.
    np.testing.assert_array_equal(got[1], want[1])
    h = np.maximum(x @ w1.get_value(), 0)
    dy = 2 * (h @ w2.get_value())
    bound = (2**-8 + 1e-5) * (np.abs(h).T @ np.abs(dy))
    assert (np.abs(got[2] - want[2]) <= bound).all() and (got[2] != want[2]).any()


def test_explain_says_how_the_last_call_ran():
    f, *_ = two_layers(memory=planned().peak - 1, activations="bfloat16", **WHOLE)
    assert "rounded activations" not in f.explain()
    f(rows())
    text = f.explain()
    assert text.startswith("the last call ran with rounded activations, to keep to the budget of")
    assert "kept for the backward part in bfloat16: lossy" in text
    f(rows()[:2])  # fits as it is
    assert "rounded activations" not in f.explain()


def test_exact_ways_come_first():
    plain = planned()
    assert planned(activations="bfloat16").rounded == 0  # no budget
    assert planned(activations="bfloat16", memory=plain.peak, **WHOLE).rounded == 0
    assert planned(activations="bfloat16", memory=plain.peak - 1).rounded == 0
    sliced = planned(activations="bfloat16", memory=plain.peak - 1, recompute=False)
    assert sliced.rounded == 0 and sliced.micro_batches > 1
    assert planned(memory=plain.peak - 1).rounded == 0


def test_it_is_a_remedy_where_it_is_not_allowed():
    budget = planned().peak - 1
    with pytest.raises(MemoryError, match='activations="bfloat16"'):
        two_layers(memory=budget, **WHOLE)[0](rows())
    with pytest.raises(ValueError, match="function: activations is 'float16'"):
        planned(activations="float16")


def network():
    block = lambda n: [nn.Conv2d(n, 3, pad="half"), nn.BatchNorm(), nn.Activation("relu")]
    return nn.Sequential([*block(16), *block(16), nn.MaxPool(2), nn.Flatten(), nn.Dense(4)])


def test_training_within_a_budget_that_nothing_else_meets():
    rng = np.random.default_rng(5)
    data = rng.standard_normal((64, 3, 32, 32), "float32"), rng.integers(0, 4, 64)
    how = {"batch": 32, "optimizer": "momentum", "rate": 0.001, "seed": 1}
    peak = nn.plan(network(), data, **how).peak
    with pytest.raises(MemoryError) as refusal:  # batch norm rules out slices
        nn.plan(network(), data, memory=peak // 4, **how)
    smallest = int(re.search(r"needs .* \((\d+) bytes\), the budget", str(refusal.value))[1])
    with pytest.raises(MemoryError, match='activations="bfloat16"'):
        nn.plan(network(), data, memory=smallest - 1, **how)
    tight = {"memory": smallest - 1, "activations": "bfloat16"}
    plan = nn.plan(network(), data, **how, **tight)
    assert plan.rounded and plan.peak < smallest
    losses = []
    for options in ({}, tight):
        model = network()
        history = nn.fit(model, data, epochs=3, progress="silent", **how, **options)
        losses.append(history["loss"])
    assert losses[0] != losses[1]
    np.testing.assert_allclose(losses[0], losses[1], rtol=0.02)


def test_the_tool():
    def run(*more, status=0):
        step = ["plan", "resnet18", "--size", "64", "--batch", "512", "--json"]
        done = subprocess.run([TOOL, *step, *map(str, more)], capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout)

    plain = run()["bytes"]["peak"]
    exact = run("--memory", plain, "--precision", "bfloat16-activations")
    assert exact["techniques"] == [] and exact["bytes"]["peak"] == plain
    budget = plain * 8 // 10
    refused = run("--memory", budget, status=1)
    remedy = next(r for r in refused["remedies"] if r["flag"].startswith("--precision"))
    again = run("--memory", budget, *remedy["flag"].split())
    assert again["fits"] and again["bytes"]["peak"] == remedy["peak"] <= budget
    assert again["techniques"] == ["bfloat16-activations"] and "smallest" not in again["bytes"]
    assert remedy["time_ratio"] > 0
    assert "bfloat16-activations" not in run("--memory", budget, "--fit")["techniques"]
