"""Trains a small network on Fashion-MNIST and prints its accuracy on the test set.

The data live in shared variables; a compiled function takes the number of a batch and reads its
slice by `givens`, so no image passes through Python within an epoch.

    python examples/mlp.py [--epochs N] [--batch N] [--data FOLDER]
"""

import argparse
import gzip
import sys
import time
from pathlib import Path

import numpy as np

import snug
import snug.tensor as T

FOLDER = Path("/usr/share/datasets/fashion-mnist")  # Debian package dataset-fashion-mnist


def read_idx(path):
    """An array from a gzipped IDX file: zeros, dtype, ndim, big-endian sizes, bytes."""
    with gzip.open(path, "rb") as file:
        content = file.read()
    ndim = content[3]
    shape = np.frombuffer(content, ">i4", ndim, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * ndim).reshape(shape)


def load(folder, part):
    """Images as rows of floats in [0, 1], and their classes."""
    images = read_idx(folder / f"{part}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz")
    return images.reshape(len(images), -1).astype(np.float32) / 255, labels.astype(np.int32)


def dense(rng, x, inputs, outputs, name):
    """A layer: its output and its parameters."""
    scale = np.sqrt(2 / inputs)
    W = snug.shared((scale * rng.standard_normal((inputs, outputs))).astype(np.float32), f"W{name}")
    b = snug.shared(np.zeros(outputs, np.float32), f"b{name}")
    return T.dot(x, W) + b, [W, b]


def adam(loss, params, rate):
    """Updates by Adam; the state of each parameter is two shared variables of its shape."""
    step = snug.shared(np.float32(0), "step")
    updates = [(step, step + 1)]
    size = rate * T.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
    for param, gradient in zip(params, T.grad(loss, params)):
        zeros = np.zeros_like(param.get_value())
        mean, square = snug.shared(zeros), snug.shared(zeros)
        new_mean = 0.9 * mean + 0.1 * gradient
        new_square = 0.999 * square + 0.001 * gradient**2
        updates += [
            (mean, new_mean),
            (square, new_square),
            (param, param - size * new_mean / (T.sqrt(new_square) + 1e-7)),
        ]
    return updates


class Progress:
    """A bar that is redrawn at most ten times a second; without a terminal, a line per epoch."""

    def __init__(self, total):
        self.total, self.drawn, self.live = total, 0.0, sys.stdout.isatty()

    def show(self, done, text):
        if self.live and time.monotonic() - self.drawn > 0.1:
            self.drawn = time.monotonic()
            filled = 30 * done // self.total
            print(f"\r{text}  [{'#' * filled}{'.' * (30 - filled)}]", end="", flush=True)

    def finish(self, text):
        print(f"\r\033[K{text}" if self.live else text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--data", type=Path, default=FOLDER, help=f"default: {FOLDER}")
    options = parser.parse_args()

    started = time.perf_counter()
    train_x, train_y = load(options.data, "train")
    test_x, test_y = load(options.data, "t10k")
    print(f"data      {len(train_x)} training images, {len(test_x)} test images")

    rng = np.random.default_rng(1)
    x, y = T.matrix("x", dtype="float32"), T.ivector("y")
    h1, params1 = dense(rng, x, train_x.shape[1], 256, "1")
    h2, params2 = dense(rng, T.maximum(h1, 0), 256, 128, "2")
    scores, params3 = dense(rng, T.maximum(h2, 0), 128, 10, "3")
    probability = T.nnet.softmax(scores)
    loss = T.nnet.categorical_crossentropy(probability, y).mean()
    right = T.eq(T.argmax(probability, axis=1), y)
    params = params1 + params2 + params3

    data_x, data_y = snug.shared(train_x, "images"), snug.shared(train_y, "labels")
    i, n = T.lscalar("i"), options.batch
    batch = {x: data_x[i * n : (i + 1) * n], y: data_y[i * n : (i + 1) * n]}
    rate = T.fscalar("rate")
    train = snug.function([i, rate], loss, updates=adam(loss, params, rate), givens=batch)
    count_right = snug.function([x, y], right.sum())
    size = sum(param.get_value().size for param in params)
    print(
        f"model     784-256-128-10, {size} parameters, compiled in "
        f"{time.perf_counter() - started:.1f} s with the data"
    )

    batches = -(-len(train_x) // n)  # the last one may be smaller
    for epoch in range(options.epochs):
        began, total, bar = time.perf_counter(), 0.0, Progress(batches)
        rate_now = np.float32(1e-3 * (1 - epoch / options.epochs))
        order = rng.permutation(len(train_x))
        data_x.set_value(train_x[order])
        data_y.set_value(train_y[order])
        for batch_number in range(batches):
            total += float(train(batch_number, rate_now))
            done = batch_number + 1
            bar.show(done, f"epoch {epoch + 1:2}  loss {total / done:.4f}")
        bar.finish(
            f"epoch {epoch + 1:2}  loss {total / batches:.4f}  {time.perf_counter() - began:.1f} s"
        )

    accuracy = 100 * int(count_right(test_x, test_y)) / len(test_x)
    print(f"test accuracy {accuracy:.2f} %")
    return 0 if accuracy >= 87 else 1


if __name__ == "__main__":
    sys.exit(main())
