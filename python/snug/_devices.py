"""The devices of this machine."""

from __future__ import annotations

from typing import NamedTuple

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


class Devices(list[Device]):
    """Prints as a table. `trouble` says why there may be others."""

    trouble = ""
    _text = ""

    def __repr__(self) -> str:
        return self._text.rstrip()


def devices() -> Devices:
    """The devices that functions can run on, the processor first. Others are looked for once per
    process, in a process of their own, since drivers may crash or hang when they are asked."""
    found = _core.devices()
    out = Devices(Device(**d) for d in found["devices"])
    out.trouble, out._text = found["trouble"], found["text"]
    return out
