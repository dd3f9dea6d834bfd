"""Class numbers that are none are errors that name the label, its row and the classes."""

import numpy as np
import pytest

import snug
import snug.tensor as T
from snug import nn

X, Y = T.fmatrix("x"), T.ivector("y")
LOSSES = {
    "cross_entropy": lambda: nn.cross_entropy(X, Y),
    "accuracy": lambda: nn.accuracy(X, Y),
    "mean_error": lambda: nn.mean_error(X, Y),
    "top_k_accuracy": lambda: nn.top_k_accuracy(X, Y, 2),
    "categorical_crossentropy": lambda: T.nnet.categorical_crossentropy(
        T.nnet.softmax(X), Y
    ).mean(),
    "crossentropy_softmax_1hot": lambda: T.nnet.crossentropy_softmax_1hot(X, Y)[0].sum(),
}
SCORES = np.random.RandomState(0).rand(20, 3).astype("float32")
LABELS = np.arange(20, dtype="int32") % 3


def wrong(label, row=17):
    labels = LABELS.copy()
    labels[row] = label
    return labels


@pytest.mark.parametrize("mode", ["fast", "reference", "check"])
@pytest.mark.parametrize("name", LOSSES)
def test_wrong_labels(name, mode):
    f = snug.function([X, Y], LOSSES[name](), mode=mode)
    f(SCORES, LABELS)
    for label in (-1, 3, -4, 2**31 - 1):
        text = rf"{name}: label {label} of row 17 is not one of the 3 classes 0 to 2"
        with pytest.raises(IndexError, match=text):
            f(SCORES, wrong(label))


def test_values_stay():
    logits = SCORES.astype("float64")
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    want = -np.log(p[np.arange(20), LABELS])
    for name in ("cross_entropy", "categorical_crossentropy"):
        got = snug.function([X, Y], LOSSES[name]())(SCORES, LABELS)
        np.testing.assert_allclose(got, want.mean(), rtol=1e-6)


def test_gradients_check_them():
    for name in ("cross_entropy", "categorical_crossentropy"):
        f = snug.function([X, Y], T.grad(LOSSES[name](), X))
        with pytest.raises(IndexError, match=f"{name}: label -1 of row 17"):
            f(SCORES, wrong(-1))


def test_places_of_more_dimensions():
    x, y = T.ftensor3("x"), T.lmatrix("y")
    f = snug.function([x, y], nn.cross_entropy(x, y))
    labels = np.zeros((4, 5), "int64")
    labels[2, 3] = 9
    with pytest.raises(IndexError, match=r"label 9 at \(2, 3\) is not one of the 3 classes"):
        f(np.zeros((4, 5, 3), "float32"), labels)


def test_line_of_the_user_and_hint():
    f = snug.function([X, Y], nn.cross_entropy(X, Y))
    with pytest.raises(IndexError) as caught:
        f(SCORES, wrong(-1))
    assert "test_labels.py" in str(caught.value) and "hint" in str(caught.value)


def test_row_of_the_batch_in_slices():
    w = snug.shared(np.ones((3, 3), "float32"))
    loss = nn.cross_entropy(T.dot(X, w), Y)
    updates = [(w, w - 0.1 * T.grad(loss, w))]
    f = snug.function([X, Y], loss, updates=updates, micro_batches=4)
    f(SCORES, LABELS)
    before = w.get_value()
    with pytest.raises(IndexError, match="label 7 of row 17 "):
        f(SCORES, wrong(7))
    np.testing.assert_array_equal(w.get_value(), before)
