"""The devices of this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from snug import _core
from snug._config import Bad, config
from snug._errors import error, say


class Device(NamedTuple):
    """A device that functions can run on."""

    name: str  # "cpu", "opencl:0": for `device=`
    model: str
    driver: str
    kind: str  # "cpu" or "gpu"
    fp64: bool
    fp16: bool
    units: int  # cores
    memory: int  # bytes
    largest_allocation: int  # bytes; 0: all of its memory
    trouble: str = ""  # why it cannot be used; it has no name then
    others: tuple[Device, ...] = ()  # the same card by other drivers


class Devices(list[Device]):
    """Prints as a table. `unusable`: those that are there, with their `trouble`. `trouble` says why
    there may be others."""

    unusable: list[Device]
    trouble = ""
    _text = ""

    def __repr__(self) -> str:
        return self._text.rstrip()


def _device(found: dict[str, Any]) -> Device:
    return Device(**{**found, "others": tuple(map(_device, found["others"]))})


def devices() -> Devices:
    """The devices that functions can run on, the processor first. Others are looked for once per
    process, in a process of their own, since drivers may crash or hang when they are asked."""
    found = _core.devices()
    out = Devices(map(_device, found["devices"]))
    out.unusable = [_device(d) for d in found["unusable"]]
    out.trouble, out._text = found["trouble"], found["text"]
    return out


@contextmanager
def device(name: str) -> Iterator[None]:
    """Expressions and shared variables that are built in the block are on a device, in whatever
    function they are, and so are gradients of them; all else is where the function is."""
    name = named(name) or "cpu"
    before = _core._set_current_device(name)
    try:
        yield
    finally:
        _core._set_current_device(before)


# ---- Theano's names

_THEANO = re.compile(r"(cuda:?|gpu:?|opencl|opencl\d+:)(\d*)$")
contexts: dict[str, str] = {}  # those of the flag: {"dev0": "cuda0"}
_said: set[str] = set()


def named(name: str) -> str | None:
    """As find, for arguments."""
    if not isinstance(name, str):
        raise error(TypeError, f"device: expected a name, got {name!r}")
    try:
        return find(name)
    except Bad as bad:
        raise error(ValueError, *bad.args) from None


def find(name: str) -> str | None:
    """The name of a device as `devices()` has it, or Bad. Theano's names mean the GPU of that
    number, or the first; where there is none they mean nothing. Either is said once."""
    if name == "cpu":
        return name
    meant = contexts.get(name, name)
    if meant == "cpu":
        return meant
    if meant in _core.devices()["names"]:
        return meant
    found = devices()
    theano = _THEANO.match(meant)
    if theano is None:
        there_are = ", ".join(d.name for d in found)
        raise Bad(
            f"there is no device {meant!r}; there are: {there_are}",
            "snug devices lists them, and why others cannot be used",
        )
    gpus = [d for d in found if d.kind == "gpu"]
    number = int(theano[2] or 0)
    gpu = gpus[number if number < len(gpus) else 0] if gpus else None
    about = gpu.name if gpu else ""
    if about not in _said:
        _said.add(about)
        if gpu:
            say(f"device = {name!r} means {gpu.name} here, {gpu.model}")
        else:
            say(f"there is no GPU for device = {name!r}: functions run on the CPU")
    return gpu.name if gpu else None


# ---- values

_transfers: list[Callable[[Any, Any], Any]] = []


def register_transfer(fn: Callable[[Any, Any], Any]) -> None:
    """Registers fn(variable, target) -> variable, or None if it does not know the target."""
    if not callable(fn):
        raise error(TypeError, f"register_transfer: expected a function, got {fn!r}")
    _transfers.append(fn)


def transfer(var: Any, target: str | None) -> _core.Variable:
    """var on a device: "cpu", one of snug.devices(), or a name of Theano's; None is the device of
    snug.config. What is made of it is there, too, unless it is put elsewhere. Functions that were
    registered are asked first."""
    for fn in _transfers if target != "cpu" else ():
        result = fn(var, target)
        if result is not None:
            return result
    device = named(config.device if target is None else target)
    variable = _core.as_tensor(var, "transfer")
    return _core.on_device(variable, device) if device else variable
