"""Layers, initialisers, losses, metrics, models, summaries and pruning.

A layer is a callable that builds expressions; its parameters are shared variables:

    model = nn.Sequential(nn.Dense(128, activation="relu"), nn.Dense(10)).build((None, 784))
    loss = nn.cross_entropy(model(x, training=True), y)
    grads = snug.grad(loss, model.parameters())

A plain function of an expression is a layer, too; layers that it calls are part of it. So is a
class that derives from Layer and has a method `forward(self, x)`. Layers of a model are found by
number, name or slice (`model[:-1]`), can be frozen and replaced; `load` takes what fits of a file.
"""

from snug._core import (
    GRU,
    LSTM,
    Activation,
    Attention,
    AveragePool,
    BatchNorm,
    Concat,
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose2d,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    GlobalAveragePool,
    GlobalMaxPool,
    Initialiser,
    Layer,
    LayerNorm,
    MaxPool,
    PruneReport,
    Reshape,
    Residual,
    Sequential,
    Skip,
    Summary,
    Upsample,
    accuracy,
    activation_names,
    binary_cross_entropy,
    cross_entropy,
    gru_cell,
    hinge,
    huber,
    lstm_cell,
    mae,
    make_model,
    masked,
    mean_error,
    model_names,
    mse,
    prune,
    sparsity,
    summary,
    top_k_accuracy,
)
from snug._errors import error as _error
from snug._readable import no_attribute as _no_attribute
from snug.nn import init
from snug.nn.training import (
    Epoch,
    History,
    LoadReport,
    SavedModel,
    SearchResult,
    Trial,
    evaluate,
    fit,
    load,
    load_model,
    plan,
    save,
    search,
)

__all__ = [
    "GRU",
    "LSTM",
    "Activation",
    "Attention",
    "AveragePool",
    "BatchNorm",
    "Concat",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose2d",
    "Dense",
    "Dropout",
    "Embedding",
    "Epoch",
    "Flatten",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "History",
    "Initialiser",
    "Layer",
    "LayerNorm",
    "LoadReport",
    "MaxPool",
    "PruneReport",
    "Reshape",
    "Residual",
    "SavedModel",
    "SearchResult",
    "Sequential",
    "Skip",
    "Summary",
    "Trial",
    "Upsample",
    "accuracy",
    "activation_names",
    "binary_cross_entropy",
    "cross_entropy",
    "evaluate",
    "fit",
    "gru_cell",
    "hinge",
    "huber",
    "init",
    "load",
    "load_model",
    "lstm_cell",
    "mae",
    "make_model",
    "masked",
    "mean_error",
    "model_names",
    "mse",
    "plan",
    "prune",
    "save",
    "search",
    "sparsity",
    "summary",
    "top_k_accuracy",
]

# What other libraries call them.
_ELSEWHERE = {
    **{"Linear": "Dense", "ReLU": 'Activation("relu")', "Softmax": 'Activation("softmax")'},
    **{f"Conv{k}D": f"Conv{k}d" for k in (1, 2, 3)},
    **{
        f"{kind}Pool{k}{d}": f"{kind}Pool"
        for kind in ("Max", "Average")
        for k in "123"
        for d in "dD"
    },
    **{f"AvgPool{k}d": "AveragePool" for k in "123"},
    **{f"MaxPooling{k}D": "MaxPool" for k in "123"},
    **{f"BatchNorm{k}d": "BatchNorm" for k in "123"},
    **{"MultiheadAttention": "Attention", "MultiHeadAttention": "Attention"},
    **{"UpSampling2D": "Upsample"},
    **{"BatchNormalization": "BatchNorm", "LayerNormalization": "LayerNorm"},
    **{"CrossEntropyLoss": "cross_entropy", "MSELoss": "mse", "L1Loss": "mae"},
    **{"BCEWithLogitsLoss": "binary_cross_entropy"},
}


def __getattr__(name: str):
    if name in _ELSEWHERE:
        raise _error(
            AttributeError, f"snug.nn has no {name}", f"it is snug.nn.{_ELSEWHERE[name]} here"
        )
    raise _no_attribute(__name__, name)
