"""The devices of this machine."""

from __future__ import annotations

from typing import Any, NamedTuple

from snug import _core


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
