"""Trains lenet on some kinds of images and reuses its body for others, of which there are few.

python examples/transfer.py [--epochs N] [--rows N]
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from snug import nn

KINDS, NEW_KINDS = 6, 3
SIZE = 28


def pictures(kinds, rows, seed):
    """Images of so many kinds with their labels: a pattern, moved and with noise."""
    rng = np.random.default_rng(7)
    patterns = np.kron(rng.random((KINDS + NEW_KINDS, 7, 7)) > 0.5, np.ones((4, 4)))[kinds]
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(patterns), rows)
    images = [np.roll(patterns[k], rng.integers(-2, 3, 2), (0, 1)) for k in labels]
    images = np.array(images) + rng.normal(0, 0.3, (rows, SIZE, SIZE))
    return images[:, None].astype("float32"), labels


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rows", type=int, default=1000)
    options = parser.parse_args(arguments)
    old, new = slice(KINDS), slice(KINDS, None)
    file = Path(tempfile.mkdtemp(prefix="snug-transfer-")) / "lenet.safetensors"

    model = nn.make_model("lenet", classes=KINDS)
    nn.fit(model, pictures(old, options.rows, 1), epochs=options.epochs, metrics="accuracy")
    nn.save(model, file)

    # Another number of classes: all but the last layer fits.
    model = nn.make_model("lenet", classes=NEW_KINDS)
    print(nn.load(model, file, strict=False))

    # The body stays as it is; only the new last layer is trained.
    model[:-1].freeze()
    print(nn.summary(model, (32, 1, SIZE, SIZE)))
    few, test = pictures(new, 100, 2), pictures(new, 500, 3)
    print(nn.fit(model, few, epochs=4 * options.epochs, rate=0.01, progress="silent"))

    # Then all of it, slowly.
    model.unfreeze()
    nn.fit(model, few, epochs=options.epochs, rate=1e-4, progress="silent")
    found = nn.evaluate(model, test, metrics="accuracy")
    print(f"accuracy on new images: {found['accuracy']:.3f}")
    return found["accuracy"]


if __name__ == "__main__":
    main()
