"""The training loop: `fit`, and `search` over its options."""

from __future__ import annotations

import inspect
import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from snug import _core
from snug._core import Epoch, History, LoadReport
from snug._errors import error
from snug._options import check_precision
from snug.data import Loader, Source, arrays

__all__ = [
    "Epoch",
    "History",
    "LoadReport",
    "SavedModel",
    "SearchResult",
    "Trial",
    "evaluate",
    "fit",
    "load",
    "load_model",
    "save",
    "search",
]

Data = Any  # a Loader, a source, or a pair of arrays


def _loader(data: Data, batch: int, shuffle: bool, seed: int) -> _core.Loader:
    if isinstance(data, (tuple, list)):
        data = arrays(*data)
    if isinstance(data, Source):
        # Room for some batches of floats, beside what sources are read with.
        row = sum(4 * math.prod(field.shape) for field in data.fields)
        memory = 64 * 2**20 + 6 * min(batch, len(data)) * row
        data = Loader(data, batch=batch, shuffle=shuffle, seed=seed, memory=memory)
    if not isinstance(data, Loader):
        raise error(
            TypeError,
            f"fit: a {type(data).__name__} is no data",
            "give a Loader, a source, or a pair of arrays (inputs, targets)",
        )
    if data._callables:
        raise error(
            TypeError,
            "fit: the loader has transforms that are Python functions",
            "use the steps of snug.data, or write the loop over the loader yourself",
        )
    return data._loader


_OPTIM = ("weight_decay", "clip_value", "clip_norm", "clip_global_norm", "accumulate", "average")
# What other libraries call them.
_ELSEWHERE = {"lr": "rate", "learning_rate": "rate", "batch_size": "batch"}
_ELSEWHERE |= {"callbacks": "on_epoch", "validation_data": "validation", "verbose": "progress"}
_EXAMPLES = {"optimizer": 'optimizer="adam"', "progress": 'progress="silent"'}
_EXAMPLES |= {"monitor": 'monitor="validation_loss"'}
_OPTIM += ("momentum", "rho", "beta1", "beta2", "epsilon", "centered")


def fit(
    model: _core.Layer,
    data: Data,
    *,
    epochs: int = 10,
    batch: int = 32,
    loss: str | Callable[..., Any] = "cross_entropy",
    metrics: Sequence[str | Callable[..., Any]] = (),
    optimizer: str = "adam",
    rate: Any = None,
    validation: Data = None,
    monitor: str | None = None,
    patience: int = 0,
    restore_best: bool = False,
    folder: str | os.PathLike[str] | None = None,
    checkpoint_steps: int = 0,
    keep: int = 2,
    resume: bool = False,
    shuffle: bool = True,
    seed: int = 0,
    memory: str | int | None = None,
    micro_batches: int = 0,
    recompute: bool = True,
    offload: str | os.PathLike[str] | None = None,
    activations: str = "float32",
    threads: int = 0,
    precision: str = "float32",
    progress: str = "auto",
    on_epoch: Callable[[Epoch], Any] | None = None,
    **optim: Any,
) -> History:
    """Trains a model and gives what every epoch gave.

    data, validation: a Loader, a source, or a pair of arrays (inputs, targets); of the latter two
        batches of `batch` rows are made, in an order that follows from `seed`.
    loss, metrics: names such as "cross_entropy" and "accuracy", or functions of predictions and
        targets that give one number.
    optimizer, rate: a rule of snug.optim and its rate; its options are taken, too.
    monitor: what says which epoch is best: "loss", a metric, or one of them with "validation_" in
        front. patience: ends after so many epochs that were not the best. restore_best: the model
        ends with the parameters of the best epoch.
    folder: checkpoints after every epoch, and every `checkpoint_steps` steps; the last `keep` of
        them and the best stay, and "model.safetensors" at the end. resume: goes on from the newest
        valid one. A training that was killed at any moment and resumed gives the same bits as one
        that was not.
    memory, micro_batches, recompute, offload, activations, threads, precision: as of snug.function.
        With "bfloat16" parameters, their state and what is saved stay float32.
    progress: "auto" (a bar on a terminal, else a line per epoch), "bar", "lines" or "silent".
    on_epoch: called with every epoch; ends the training if it gives False. It may prune the model,
        if `prune(model, 0)` was called before the training.

    Ctrl-C saves a checkpoint and returns.
    """
    options = dict(locals())
    loader, options = _options(options)
    return _core.Trainer(model, loader, options).fit(loader, options)


def plan(model: _core.Layer, data: Data, **options: Any) -> _core.MemoryReport:
    """What a training step of `fit` with the same arguments takes, before anything is allocated.

    A MemoryError says what would fit if the budget `memory` cannot be kept.
    """
    arguments = {p.name: p.default for p in inspect.signature(fit).parameters.values()}
    optim = {name: options.pop(name) for name in list(options) if name not in arguments}
    arguments |= options | {"data": data, "optim": optim}
    loader, chosen = _options(arguments)
    return _core.Trainer(model, loader, chosen).plan(loader)


def evaluate(
    model: _core.Layer,
    data: Data,
    *,
    batch: int = 32,
    loss: str | Callable[..., Any] = "cross_entropy",
    metrics: Sequence[str | Callable[..., Any]] = (),
    memory: str | int | None = None,
    threads: int = 0,
    precision: str = "float32",
) -> dict[str, float]:
    """The loss and the metrics of a model by name, means over the rows of the data.

    The arguments are those of `fit`. A loader stays where it is.
    """
    options = dict(locals()) | {"shuffle": False, "seed": 0, "validation": None, "folder": None}
    loader, options = _options(options | {"rate": None, "optim": {}})
    return _core.evaluate(model, loader, options)


def _options(given: dict[str, Any]) -> tuple[_core.Loader, dict[str, Any]]:
    """The loader, and the options as the core takes them."""
    options = dict(given)
    options.pop("model", None)
    optim = options.pop("optim")
    for name in optim:
        if name not in _OPTIM:
            near = _ELSEWHERE.get(name) or _core.nearest(name, [*options, *_OPTIM])
            hint = f"did you mean '{near}'?" if near else ""
            raise error(TypeError, f"fit: there is no option '{name}'", hint)
    if isinstance(options["metrics"], str):
        options["metrics"] = [options["metrics"]]
    for name in ("optimizer", "progress", "monitor"):
        if not isinstance(value := options.get(name, ""), (str, type(None))):
            raise error(
                TypeError,
                f"fit: {name} is a name, not {value!r}",
                f"give it as text, as in {_EXAMPLES[name]}",
            )
    batch, shuffle, seed = (options.pop(name) for name in ("batch", "shuffle", "seed"))
    loader = _loader(options.pop("data"), batch, shuffle, seed)
    if options["validation"] is not None:
        options["validation"] = _loader(options["validation"], batch, False, seed)
    check_precision("fit", options["precision"], options.get("activations", "float32"))
    for name in ("folder", "offload"):
        if options.get(name) is not None:
            options[name] = os.fspath(options[name])
    rate = options.pop("rate")
    options["optim"] = optim if rate is None else {"rate": rate, **optim}
    return loader, options


def save(model: _core.Layer, path: str | os.PathLike[str]) -> None:
    """Writes the parameters and running statistics to a .safetensors or .npz file."""
    _core.save_parameters(model, path)


def load(model: _core.Layer, path: str | os.PathLike[str], *, strict: bool = True) -> LoadReport:
    """Reads them back, by name, and gives what was loaded.

    strict: the model and the file must have the same parameters. Otherwise those that both have
        with the same shape and dtype are loaded; the result names the others.
    """
    return _core.load_parameters(model, path, strict)


class SavedModel(NamedTuple):
    """A model of `make_model` with its parameters, and what it is for."""

    model: _core.Layer
    name: str
    input: tuple[int, ...]
    classes: list[str]
    bytes: bool
    """Examples are images of bytes, divided by 255."""


def load_model(path: str | os.PathLike[str]) -> SavedModel:
    """The model of a file that says which it is: "model.safetensors" of `snug train`."""
    return SavedModel(*_core.load_model(path))


class Trial(NamedTuple):
    """One run of a search: what was tried, and what it gave."""

    choice: dict[str, Any]
    value: float
    history: History


class SearchResult(NamedTuple):
    """All runs, the best one, and the arrays of its parameters by name."""

    trials: list[Trial]
    best: Trial
    parameters: dict[str, Any]
    compiled: int


# Options that change nothing in the compiled functions.
_NOT_COMPILED = {"rate", "epochs", "batch", "patience", "shuffle", "seed", "monitor"}


def search(
    make: Callable[..., _core.Layer],
    data: Data,
    grid: Mapping[str, Iterable[Any]],
    *,
    monitor: str | None = None,
    **options: Any,
) -> SearchResult:
    """Trains with every combination of the values of a grid, and keeps the best parameters only.

    make: gives a built model; it takes the names of the grid that are no options of `fit`.
    grid: values to try by name, as {"rate": [0.1, 0.01], "units": [64, 128]}.
    monitor: as of `fit`; the value of the best epoch of a run decides.

    Runs whose compiled functions would be equal share them: the learning rate, the batch and the
    number of epochs need no new code.
    """
    parameters_of_fit = inspect.signature(fit).parameters
    defaults = {n: p.default for n, p in parameters_of_fit.items() if p.default is not p.empty}
    known = {*defaults, *_OPTIM}
    name = monitor or ("validation_loss" if options.get("validation") is not None else "loss")
    sign = 1 if name.endswith(("loss", "error", "mse", "mae")) else -1
    choices = [dict(zip(grid, values)) for values in itertools.product(*grid.values())]
    start = data.state() if isinstance(data, Loader) else None
    trials: dict[int, Trial] = {}
    best, parameters, compiled, trainer, last = None, {}, 0, None, None
    # Runs with the same functions follow one another: one set of functions lives at a time.
    for k in sorted(range(len(choices)), key=lambda k: _compiled_key(choices[k])):
        choice = choices[k]
        if start is not None:
            data.seek(start)
        model = make(**{n: v for n, v in choice.items() if n not in known})
        chosen = {**defaults, **options, **{n: v for n, v in choice.items() if n in known}}
        chosen |= {"monitor": name, "restore_best": True, "data": data}
        others = [n for n in chosen if n not in defaults and n != "data"]
        chosen["optim"] = {n: chosen.pop(n) for n in others}
        rate = chosen["rate"]
        loader, chosen = _options(chosen)
        if trainer is None or _compiled_key(choice) != last:
            trainer, trained, last = None, model, _compiled_key(choice)
            trainer = _core.Trainer(model, loader, chosen)
            compiled += 1
        else:
            trainer.restart(model)
            if not callable(rate):
                rule = chosen["optimizer"]
                trainer.set_rate(_core.optim.default_rate(rule) if rate is None else rate)
        history = trainer.fit(loader, chosen)
        value = history[name][history.best_epoch - 1] if history.best_epoch else math.nan
        trials[k] = Trial(choice, value, history)
        if best is None or math.isnan(best.value) or sign * value < sign * best.value:
            best = trials[k]
            parameters = {n: v.get_value() for n, v in trained.state().items()}
        if history.interrupted:
            break
    if best is None:
        raise error(ValueError, "search: the grid is empty")
    return SearchResult([trials[k] for k in sorted(trials)], best, parameters, compiled)


def _compiled_key(choice: Mapping[str, Any]) -> str:
    """Equal for choices that need the same functions. A schedule is part of them."""
    parts = {n: v for n, v in choice.items() if n not in _NOT_COMPILED or callable(v)}
    return repr(sorted(parts.items(), key=lambda item: item[0]))
