"""Which names of Theano's modules Snug has, besides those of theano.tensor and theano.tensor.nnet:
those that the module has which `import theano...` finds. For the others
`snug._theano_parts.absent` has the reason why not."""

from __future__ import annotations

import importlib
import types
from typing import Any, NamedTuple

from theano_names import DATA, Status, reasons

import snug
from snug import theano_alias
from snug._theano_parts import absent, top
from snug._theano_parts.absent import REWRITE

# Modules, or names of them, that are to come with another issue.
LATER = {
    "convolutions are an issue of their own": """
        tensor.nnet.abstract_conv tensor.nnet.conv tensor.nnet.neighbours tensor.signal.conv
        tensor.signal.pool""",
    "random numbers are an issue of their own": "tensor.shared_randomstreams",
}
# Kinds of objects that Snug does not have.
KINDS = dict.fromkeys(
    ("FromFunctionLocalOptimizer", "FromFunctionOptimizer", "LocalGroupDB", "LocalOptGroup"),
    REWRITE,
) | dict.fromkeys(("PatternSub", "Query", "SequenceDB", "TopoOptimizer"), REWRITE)


class Name(NamedTuple):
    """A name of one of Theano's modules."""

    module: str
    name: str
    kind: str


def read_names() -> list[Name]:
    lines = (DATA / "theano_modules.tsv").read_text().splitlines()
    return [Name(*line.split("\t")) for line in lines if not line.startswith("#")]


def counterparts() -> dict[str, Any]:
    """Theano's modules that there are, and what stands for them."""
    found: dict[str, Any] = {"theano": _theano()}
    for name, target in theano_alias.modules().items():
        if target:
            found[f"theano.{name}"] = importlib.import_module(target)
    return found


def _theano() -> types.SimpleNamespace:
    """What the module `theano` has."""
    below = [name for name in theano_alias.modules() if "." not in name]
    return types.SimpleNamespace(
        **dict.fromkeys((*below, *top.__all__, *snug.__all__, "change_flags"))
    )


def statuses() -> tuple[dict[Name, Status], list[str]]:
    """The status of every name, and what is wrong: names that are not there without a reason, and
    reasons for names that are."""
    there, later, why_not = counterparts(), reasons(LATER), absent.reasons()
    found, problems = {}, []
    names = read_names()
    for name in names:
        inner = name.module.removeprefix("theano").removeprefix(".")
        full = f"{inner}.{name.name}".removeprefix(".")
        reason = later.get(full) or later.get(inner)
        if name.module in there and hasattr(there[name.module], name.name):
            found[name] = Status("supported")
        elif reason:
            found[name] = Status("later", reason)
        elif name.kind in KINDS or name.name in why_not:
            found[name] = Status("no", KINDS.get(name.kind) or why_not[name.name])
        else:
            found[name] = Status("no", "does not work yet")
            problems.append(f"{name.module}.{name.name}: is not there")
    needed = {name.name for name, status in found.items() if status.status != "supported"}
    problems += [f"{name}: a reason for nothing" for name in sorted(why_not.keys() - needed)]
    return found, problems
