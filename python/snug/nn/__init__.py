"""Layers, initialisers, losses and metrics.

A layer is a callable that builds expressions; its parameters are shared variables:

    model = nn.Sequential(nn.Dense(128, activation="relu"), nn.Dense(10)).build((None, 784))
    loss = nn.cross_entropy(model(x, training=True), y)
    grads = snug.grad(loss, model.parameters())

A plain function of an expression is a layer, too; layers that it calls are part of it.
"""

from snug._core import (
    GRU,
    LSTM,
    Activation,
    Concat,
    Conv2d,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    Initialiser,
    Layer,
    LayerNorm,
    Reshape,
    Residual,
    Sequential,
    Skip,
    accuracy,
    activation_names,
    binary_cross_entropy,
    cross_entropy,
    gru_cell,
    hinge,
    huber,
    lstm_cell,
    mae,
    mean_error,
    mse,
    top_k_accuracy,
)
from snug.nn import init
from snug.nn.training import Epoch, History, SearchResult, Trial, fit, load, save, search

__all__ = [
    "GRU",
    "LSTM",
    "Activation",
    "Concat",
    "Conv2d",
    "Dense",
    "Dropout",
    "Embedding",
    "Epoch",
    "Flatten",
    "History",
    "Initialiser",
    "Layer",
    "LayerNorm",
    "Reshape",
    "Residual",
    "SearchResult",
    "Sequential",
    "Skip",
    "Trial",
    "accuracy",
    "activation_names",
    "binary_cross_entropy",
    "cross_entropy",
    "fit",
    "gru_cell",
    "hinge",
    "huber",
    "init",
    "load",
    "lstm_cell",
    "mae",
    "mean_error",
    "mse",
    "save",
    "search",
    "top_k_accuracy",
]
