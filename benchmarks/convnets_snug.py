"""Training steps of the networks of convnets.py in Snug, on commands from standard input."""

import sys

import numpy as np
from convnets_worker import serve

import snug
import snug.tensor as T
from snug import nn, optim


def mlp():
    hidden = [nn.Dense(256, activation="relu") for _ in range(2)]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Dense(10)).build((None, 1, 28, 28))


def make(network, precision, variant):
    """A function that makes a training step of numpy arrays, and the number of parameters. The
    variant is its budget: as function takes it, or "" for none."""
    snug.config.floatX = "float32"
    model = mlp() if network == "mlp" else nn.make_model(network)
    x = T.tensor4("x")
    y = T.ltensor3("y") if network == "unet" else T.lvector("y")
    scores = model(x, training=True)
    loss = nn.cross_entropy(scores.dimshuffle(0, 2, 3, 1) if network == "unet" else scores, y)
    params = model.parameters()
    step = snug.function(
        [x, y],
        loss,
        updates=optim.momentum(loss, params, 1e-3, momentum=0.9),
        precision=precision,
        memory=variant or None,
    )
    return step, sum(int(np.prod(p.get_value(borrow=True).shape)) for p in params)


if __name__ == "__main__":
    serve(make, snug.__version__, *sys.argv[1:])
