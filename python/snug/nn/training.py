"""The training loop: `fit`, and `search` over its options."""

from __future__ import annotations

import inspect
import itertools
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from snug import _core
from snug._config import config
from snug._core import Epoch, Field, History, LoadReport
from snug._errors import error, memory_text
from snug._options import check_device, check_precision
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

Data = Any  # a Loader, a source, or arrays (inputs, targets) or (inputs, targets, weights)


def _check_weights(weights: Any) -> None:
    """Of arrays, where the row can be named; those of files are checked batch by batch."""
    values = np.asarray(weights)
    if values.dtype.kind not in "fiub":
        return  # `arrays` says what it takes
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise error(
            ValueError,
            f"fit: weight {place[0] if len(place) == 1 else place} is {values[place]}",
            "weights are finite and not negative; 0 leaves a row out",
        )


def _class_weights(given: Any) -> list[float] | None:
    """One per class, from a list, an array, or a dict of all classes."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        missing = [k for k in range(len(given)) if k not in given]
        if missing:
            raise error(
                ValueError,
                f"fit: class_weight has {len(given)} weights, but none of class {missing[0]}",
                "give one for each class, by its number from 0",
            )
        given = [given[k] for k in range(len(given))]
    values = np.asarray(given, dtype=object if isinstance(given, str) else float)
    if values.ndim != 1 or len(values) == 0:
        raise error(
            TypeError,
            f"fit: class_weight is {given!r}",
            "give a dict or a list with one weight for each class",
        )
    return values.tolist()


def _loader(data: Data, batch: int, shuffle: bool, seed: int) -> _core.Loader:
    if isinstance(data, (tuple, list)):
        if len(data) == 3:
            _check_weights(data[2])
        data = arrays(*data)
    if isinstance(data, Source):
        # Room for some batches of floats, beside what sources are read with.
        row = sum(4 * math.prod(field.shape) for field in data.fields)
        memory = 64 * 2**20 + 6 * min(batch, len(data)) * row
        data = Loader(data, batch=batch, shuffle=shuffle, seed=seed, memory=memory)
    if not isinstance(data, Loader):
        raise _no_data(data)
    if data._callables:
        raise error(
            TypeError,
            "fit: the loader has transforms that are Python functions",
            "use the steps of snug.data, or write the loop over the loader yourself",
        )
    return data._loader


def _no_data(data: Any) -> Exception:
    return error(
        TypeError,
        f"fit: a {type(data).__name__} is no data",
        "give a Loader, a source, or arrays (inputs, targets)",
    )


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
    class_weight: Mapping[int, float] | Sequence[float] | None = None,
    monitor: str | None = None,
    patience: int = 0,
    restore_best: bool = False,
    folder: str | os.PathLike[str] | None = None,
    checkpoint_steps: int = 0,
    keep: int = 2,
    resume: bool = False,
    accept: Sequence[str] = (),
    shuffle: bool = True,
    seed: int = 0,
    memory: str | int | dict[str, str | int] | None = None,
    micro_batches: int = 0,
    recompute: bool = True,
    offload: str | os.PathLike[str] | None = None,
    activations: str = "float32",
    threads: int = 0,
    precision: str = "float32",
    device: str | None = None,
    progress: str = "auto",
    on_epoch: Callable[[Epoch], Any] | None = None,
    **optim: Any,
) -> History:
    """Trains a model and gives what every epoch gave.

    data, validation: a Loader, a source, or arrays (inputs, targets) or (inputs, targets, weights);
        of the latter two batches of `batch` rows are made, in an order that follows from `seed`.
        With weights losses and metrics are weighted means, sum(w * l) / sum(w).
    loss, metrics: names such as "cross_entropy" and "accuracy", or functions of predictions and
        targets that give one number, or one per row, which weights need.
    class_weight: a weight for each class, as {0: 1.0, 1: 5.0} or [1.0, 5.0]: rows of a class weigh
        so much, times the weights of their own, in training and in validation.
    optimizer, rate: a rule of snug.optim and its rate; its options are taken, too.
    monitor: what says which epoch is best: "loss", a metric, or one of them with "validation_" in
        front. patience: ends after so many epochs that were not the best. restore_best: the model
        ends with the parameters of the best epoch.
    folder: checkpoints after every epoch, and every `checkpoint_steps` steps; the last `keep` of
        them and the best stay, and "model.safetensors" at the end. resume: goes on from the newest
        valid one. A training that was killed at any moment and resumed gives the same bits as one
        that was not. accept: what may be otherwise than before, "data" (other values of as many
        rows) or "plan" (how steps keep to `memory`); else that is an error.
    memory, micro_batches, recompute, offload, activations, threads, precision, device: as of
        snug.function.
        With "bfloat16" parameters, their state and what is saved stay float32.
    progress: "auto" (a bar on a terminal, else a line per epoch), "bar", "lines" or "silent".
    on_epoch: called with every epoch; ends the training if it gives False. It may prune the model,
        if `prune(model, 0)` was called before the training.

    Ctrl-C saves a checkpoint and returns.
    """
    options = dict(locals())
    loader, options = _options(options)
    return _core.Trainer(model, loader.fields, options).fit(loader, options)


def plan(model: _core.Layer, data: Data, **options: Any) -> _core.MemoryReport:
    """What a training step of `fit` with the same arguments takes, before anything is allocated.

    data: as of `fit`, or shapes in the place of arrays, with a dtype if need be:
        `((60000, 784), (60000,))`, `((None, 784), ((None, 10), "float32"))`. Without one, inputs
        and targets are config.floatX, but for the class numbers of cross_entropy, one per row.
    batch: rows of a step, be there as many or not; default: 32, or all if there are fewer.

    Data are looked at, not read or copied. A MemoryError says what would fit if the budget `memory`
    cannot be kept.
    """
    batch = options.get("batch")
    arguments = {p.name: p.default for p in inspect.signature(fit).parameters.values()}
    optim = {name: options.pop(name) for name in list(options) if name not in arguments}
    arguments |= options | {"validation": None, "optim": optim}
    del arguments["data"]
    _, chosen = _options(arguments)
    if isinstance(data, Loader):
        return _core.Trainer(model, data.fields, chosen).plan(data.batch)
    if isinstance(data, Source):
        fields = [_field_of((None, *f.shape), f.dtype, f.name) for f in data.fields]
        rows = len(data)
    elif isinstance(data, (tuple, list)):
        fields, rows = _planned_fields(data, arguments["loss"])
    else:
        raise _no_data(data)
    if batch is None:
        batch = arguments["batch"] if rows is None else min(arguments["batch"], rows)
    return _core.Trainer(model, fields, chosen).plan(operator.index(batch))


def _field_of(shape: Sequence[int | None], dtype: Any, name: str) -> Field:
    """As a Loader gives it: floats arrive as config.floatX. The first axis counts rows."""
    if len(shape) == 0:
        raise error(ValueError, f"plan: {name} has no axis of rows")
    kind = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    return Field(name, config.floatX if kind.startswith(("float", "bfloat")) else kind, shape[1:])


def _planned_fields(data: Sequence[Any], loss: Any) -> tuple[list[Field], int | None]:
    """The fields of arrays or shapes, and their rows if they say how many there are."""
    is_shape = lambda x: (
        isinstance(x, (tuple, list))
        and all(n is None or isinstance(n, (int, np.integer)) for n in x)
    )
    fields, rows = [], None
    for i, part in enumerate(data):
        dtype = None
        if isinstance(part, (tuple, list)) and len(part) == 2 and is_shape(part[0]):
            part, dtype = part
        if is_shape(part):
            shape = tuple(part)
            if dtype is None:
                label = i == 1 and len(shape) == 1 and loss == "cross_entropy"
                dtype = "int64" if label else config.floatX
        else:
            if not hasattr(part, "shape") or not hasattr(part, "dtype"):
                part = np.asarray(part)
            shape, dtype = tuple(part.shape), dtype or part.dtype
        fields.append(_field_of(shape, dtype, f"array {i}"))
        if shape[0] is not None and rows is not None and shape[0] != rows:
            raise error(ValueError, f"plan: array {i} has {shape[0]} rows, others have {rows}")
        rows = shape[0] if shape[0] is not None else rows
    return fields, rows


def evaluate(
    model: _core.Layer,
    data: Data,
    *,
    batch: int = 32,
    loss: str | Callable[..., Any] = "cross_entropy",
    metrics: Sequence[str | Callable[..., Any]] = (),
    class_weight: Mapping[int, float] | Sequence[float] | None = None,
    memory: str | int | dict[str, str | int] | None = None,
    threads: int = 0,
    precision: str = "float32",
    device: str | None = None,
) -> dict[str, float]:
    """The loss and the metrics of a model by name, means over the rows of the data, by weight.

    The arguments are those of `fit`. A loader stays where it is.
    """
    options = dict(locals()) | {"shuffle": False, "seed": 0, "validation": None, "folder": None}
    loader, options = _options(options | {"rate": None, "optim": {}})
    return _core.evaluate(model, loader, options)


def _options(given: dict[str, Any]) -> tuple[_core.Loader | None, dict[str, Any]]:
    """The loader, if there are data, and the options as the core takes them."""
    options = dict(given)
    options.pop("model", None)
    optim = options.pop("optim")
    for name in optim:
        if name not in _OPTIM:
            near = _ELSEWHERE.get(name) or _core.nearest(name, [*options, *_OPTIM])
            hint = f"did you mean '{near}'?" if near else ""
            raise error(TypeError, f"fit: there is no option '{name}'", hint)
    for name in ("metrics", "accept"):
        if isinstance(options.get(name), str):
            options[name] = [options[name]]
    for name in ("optimizer", "progress", "monitor"):
        if not isinstance(value := options.get(name, ""), (str, type(None))):
            raise error(
                TypeError,
                f"fit: {name} is a name, not {value!r}",
                f"give it as text, as in {_EXAMPLES[name]}",
            )
    options["class_weight"] = _class_weights(options.get("class_weight"))
    batch, shuffle, seed = (options.pop(name) for name in ("batch", "shuffle", "seed"))
    loader = _loader(options.pop("data"), batch, shuffle, seed) if "data" in options else None
    if options["validation"] is not None:
        options["validation"] = _loader(options["validation"], batch, False, seed)
    options["memory"] = memory_text("fit", options.get("memory")) or None
    check_device("fit", options["device"])
    if options["device"] is None:
        options["device"] = config.device
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
            trainer = _core.Trainer(model, loader.fields, chosen)
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
