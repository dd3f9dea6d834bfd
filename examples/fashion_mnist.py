"""Trains a small VGG on Fashion-MNIST, saves it, loads it back and classifies a few test images.

python examples/fashion_mnist.py [--epochs N] [--batch N] [--device NAME] [--data FOLDER]
                                 [--out FOLDER]
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import snug
import snug.tensor as T
from snug import data, nn, optim

EPOCHS = 4  # of three and four the better by the held-out images, within the time of a demo
BUDGET = "64MiB"
HELD_OUT = 5000  # training images that are evaluated after every epoch instead
FOLDER = Path("/usr/share/datasets/fashion-mnist")  # Debian package dataset-fashion-mnist
CLASSES = [
    *("T-shirt", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
]


def rows(folder, part):
    """Images and labels of a part; the files are read by blocks while training."""
    images = data.idx(folder / f"{part}-images-idx3-ubyte.gz")
    labels = data.idx(folder / f"{part}-labels-idx1-ubyte.gz")
    return data.zip(images, labels)


def drawn(image):
    """An image as lines of text, two rows of pixels per line."""
    shades = " .:-=+*#%@"
    pairs = (image[::2].astype(int) + image[1::2]) // 2
    return ["".join(shades[v * len(shades) // 256] for v in row) for row in pairs]


def show_refusal():
    """VGG16 with Adam in a budget that is below its parameters and their state."""
    print("\nand VGG16 with Adam in 1.5 GiB:\n")
    model = nn.make_model("vgg16")
    x, y = T.tensor4("x"), T.lvector("y")
    loss = nn.cross_entropy(model(x, training=True), y)
    updates = optim.adam(loss, model.parameters())
    step = snug.function([x, y], loss, updates=updates, memory="1.5GiB", plan_only=True)
    try:
        step.memory(x=(32, 3, 224, 224), y=(32,))
    except MemoryError as refusal:
        print(refusal)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--device", default="cpu", help="a name that `snug devices` lists")
    parser.add_argument("--data", type=Path, default=FOLDER, help=f"default: {FOLDER}")
    parser.add_argument("--out", type=Path, help="a folder for the model; default: a temporary one")
    options = parser.parse_args()
    out = options.out or Path(tempfile.mkdtemp(prefix="snug-demo-"))
    out.mkdir(parents=True, exist_ok=True)
    snug.config.floatX = "float32"
    started = time.perf_counter()

    labelled, test = rows(options.data, "train"), rows(options.data, "t10k")
    train, held_out = labelled[:-HELD_OUT], labelled[-HELD_OUT:]
    to_images = [data.to("float32", 1 / 255), data.reshape((1, 28, 28))]
    training = data.Loader(train, options.batch, seed=1, transforms=[*to_images, data.flip()])
    held_out, testing = (
        data.Loader(part, options.batch, shuffle=False, transforms=to_images)
        for part in (held_out, test)
    )
    print(
        f"data   {len(train)} training images, {HELD_OUT} to evaluate on while training, "
        f"{len(test)} test images\n"
    )

    model = nn.make_model("vgg-small")
    print(nn.summary(model, (options.batch, 1, 28, 28)))
    print(f"\na training step on {options.device}, planned within the budget of {BUDGET}:")
    how = {"metrics": ["accuracy"], "memory": BUDGET, "validation": held_out}
    how["device"] = options.device
    how["rate"] = optim.one_cycle(3e-3, options.epochs * len(training))
    planned = nn.plan(model, training, **how)
    print(planned)
    seen = []
    nn.fit(
        model,
        training,
        epochs=options.epochs,
        on_epoch=lambda epoch: seen.append(snug.process_memory().arenas),
        **how,
    )
    print(f"arena   {planned.arena:>11,} bytes planned")
    print(f"        {max(seen):>11,} bytes mapped, in whole pages")

    path = out / "fashion-vgg.safetensors"
    nn.save(model, path)
    again = nn.make_model("vgg-small")
    nn.load(again, path)
    accuracy = 100 * nn.evaluate(again, testing, metrics=["accuracy"])["accuracy"]
    x = T.tensor4("x")
    classify = snug.function([x], T.nnet.softmax(again(x)))
    chosen = [0, 1, 2, 4, 6]
    images, labels = (np.stack(v) for v in zip(*(test[i] for i in chosen)))
    probability = classify(images[:, None].astype("float32") / 255)
    print(f"\nsaved to {path} and loaded back; some test images:\n")
    for lines in zip(*(drawn(image) for image in images)):
        print(" ".join(lines))
    for text in (
        [f"{CLASSES[p.argmax()]} ({100 * p.max():.0f} %)" for p in probability],
        [f"it is: {CLASSES[label]}" for label in labels],
    ):
        print(" ".join(f"{part:28}" for part in text))
    print(f"\ntest accuracy {accuracy:.2f} % in {time.perf_counter() - started:.0f} s")
    show_refusal()
    return 0 if accuracy >= 91 or options.epochs < EPOCHS else 1


if __name__ == "__main__":
    sys.exit(main())
