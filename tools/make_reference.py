"""Writes docs/reference.md: the rows of the op table, the functions of the package, and Theano's
names with what Snug has of them.

    python tools/make_reference.py           writes it
    python tools/make_reference.py --check   says whether it is what would be written
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pathlib
import re
import sys
import tempfile
import types
from collections.abc import Iterable
from typing import Any

import theano_modules
import theano_names
from row_examples import DTYPES, ROWS, constants_of, example_of, takes

import snug
from snug import theano_alias
from snug.tensor import _types

TARGET = pathlib.Path(__file__).parent.parent / "docs" / "reference.md"
MODULES = {
    "snug.tensor": "Tensors",
    "snug.tensor.nnet": "Networks",
    "snug.tensor.extra_ops": "More functions over tensors",
    "snug.tensor.slinalg": "Factorisations and linear systems",
    "snug.tensor.nlinalg": "Linear algebra",
    "snug.tensor.fft": "Fourier transforms",
    "snug.gradient": "Gradients",
    "snug.data": "Data",
    "snug.io": "Files of arrays",
    "snug.nn": "Layers, losses and models",
    "snug.nn.init": "Initialisers",
    "snug.optim": "Update rules",
}


def table(header: Iterable[str], lines: Iterable[Iterable[str]]) -> list[str]:
    header = list(header)
    cell = lambda text: str(text).replace("|", "\\|").replace("\n", " ")
    rows = ["| " + " | ".join(map(cell, line)) + " |" for line in lines]
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *rows, ""]


# ---- rows

GROUPS = {
    "all": DTYPES,
    "all but complex": DTYPES[:13],
    "numbers": DTYPES[1:],
    "real numbers": DTYPES[1:13],
    "integers": DTYPES[1:9],
    "integers, bool": DTYPES[:9],
    "floats": DTYPES[9:13],
    "complex": DTYPES[13:],
}


def dtypes_of(row: str) -> str:
    found = [dtype for dtype in DTYPES if takes(row, dtype)]
    for name, group in GROUPS.items():
        if found == group:
            return name
    return ", ".join(found)


def arguments_of(row: str) -> str:
    inputs = ROWS[row]["inputs"]
    count = "any number" if inputs < 0 else str(inputs)
    constants = constants_of(row)
    return f"{count}; {', '.join(constants)}" if constants else count


def runs_of(row: str) -> str:
    info = ROWS[row]
    if info["runs_as"]:
        return ", ".join(info["runs_as"])
    if "leaf" in info["traits"]:
        return "nothing to do"
    return "loop" if "inner graph" in info["traits"] else "as other ops"


def row_table() -> list[str]:
    lines = []
    for row, info in ROWS.items():
        example_of(row)
        gradient = "yes" if info["gradient"] else f"none: {info['no_grad']}"
        lines.append(
            [f"`{row}`", info["doc"], arguments_of(row), dtypes_of(row), gradient, runs_of(row)]
        )
    header = ["op", "what it does", "inputs; constants", "dtypes", "gradient", "runs as"]
    return table(header, lines)


# ---- functions


def signature_of(name: str, value: Any) -> str:
    """name(parameters), without annotations."""
    try:
        parameters = inspect.signature(value).parameters.values()
        bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
        return name + str(inspect.Signature(bare))
    except ValueError:  # a compiled function, which has its signature as text
        (text, _, defaults), *_ = value.__nb_signature__
        text = re.sub(r"\\(\d+)", lambda found: repr(defaults[int(found[1])]), text)
        (function,) = ast.parse(f"{text}: ...").body
        for argument in (*function.args.args, function.args.vararg, function.args.kwarg):
            if argument is not None:
                argument.annotation = None
        return f"{name}({ast.unparse(function.args)})"


def first_line(value: Any) -> str:
    """The first sentence of the doc."""
    text = inspect.getdoc(value) or ""
    if hasattr(value, "__nb_signature__"):  # the doc begins with the signature
        text = text.partition("\n")[2].strip()
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.]) ", paragraph)[0]


# T.imatrix and so on: told in one sentence.
CONSTRUCTORS = set(_types.__all__) - {"tensor", "TensorType"}


def functions_of(module: Any) -> list[tuple[list[str], Any]]:
    """The public functions of a module, each with all its names."""
    found: dict[int, tuple[list[str], Any]] = {}
    for name in sorted(set(getattr(module, "__all__", None) or dir(module)) - CONSTRUCTORS):
        value = getattr(module, name)
        plain = isinstance(value, (types.FunctionType, type(snug._core.exp)))
        if plain and not name.startswith("_") and (value.__module__ or "").startswith("snug"):
            found.setdefault(id(value), ([], value))[0].append(name)
    return list(found.values())


def function_tables() -> list[str]:
    letters = ", ".join(f"`{letter}` {dtype}" for letter, dtype in theano_names.LETTERS.items())
    out = [
        "Variables are made by `scalar`, `vector`, `row`, `col`, `matrix` and `tensor3` to "
        "`tensor7` of `snug.tensor`, in the dtype `config.floatX`, or with a letter in front in a "
        f"fixed one: {letters}. In the plural (`imatrices`) they make several: of a number, or one "
        "per name.",
        "",
    ]
    for path, title in MODULES.items():
        try:
            module = importlib.import_module(path)
        except ModuleNotFoundError:
            continue
        lines = []
        for names, value in functions_of(module):
            first, *others = names
            text = f"`{signature_of(first, value)}`"
            if others:
                text += ", also " + ", ".join(f"`{name}`" for name in others)
            lines.append([text, first_line(value)])
        out += [f"### {title}: `{path}`", "", *table(["function", "what it gives"], lines)]
    return out


# ---- Theano's names


def names_part(found: dict[Any, Any]) -> list[str]:
    supported, total = theano_names.counted(found)
    out = [
        f"{supported} of {total} names are supported, {100 * supported / total:.1f} %. A name is "
        "supported if its sample call in `tests/data/theano_probes.txt` gives what NumPy gives.",
        "",
    ]
    for status, title in (("no", "Not supported"), ("later", "Later, and not counted")):
        by_reason: dict[str, list[str]] = {}
        for name, entry in found.items():
            if entry.status == status:
                by_reason.setdefault(entry.reason, []).append(f"`{name.key}`")
        if by_reason:
            lines = [[", ".join(names), reason] for reason, names in by_reason.items()]
            out += [f"### {title}", "", *table(["names", "why"], lines)]
    for namespace in ("theano.tensor", "theano.tensor.nnet"):
        lines = []
        for name, entry in found.items():
            if name.namespace == namespace:
                sample = f"`{entry.sample}`" if entry.sample else entry.reason
                lines.append([f"`{name.name}`", entry.status, sample])
        out += [f"### `{namespace}`", "", *table(["name", "status", "sample, or why not"], lines)]
    return out


def modules_part(found: dict[Any, Any]) -> list[str]:
    kinds = [entry.status for entry in found.values()]
    out = [
        f"{kinds.count('supported')} of {len(kinds)} names of Theano's other modules are there; "
        f"{kinds.count('later')} are to come. `import theano...` finds them in programs that run "
        "with `snug run`.",
        "",
    ]
    lines = []
    for module in dict.fromkeys(name.module for name in found):
        entries = {name.name: entry for name, entry in found.items() if name.module == module}
        there = [f"`{name}`" for name, entry in entries.items() if entry.status == "supported"]
        others: dict[str, list[str]] = {}
        for name, entry in entries.items():
            if entry.status != "supported":
                why = f"later: {entry.reason}" if entry.status == "later" else entry.reason
                others.setdefault(why, []).append(f"`{name}`")
        missing = "; ".join(f"{', '.join(names)} ({why})" for why, names in others.items())
        lines.append([f"`{module}`", ", ".join(there) or "-", missing or "-"])
    out += table(["module", "names that are there", "names that are not, and why"], lines)
    absent = [[f"`theano.{name}`", why] for name, why in theano_alias.ABSENT.items()]
    return [*out, *table(["module that is not there", "why"], absent)]


def make(found: dict[Any, Any], modules: dict[Any, Any]) -> str:
    """The document."""
    parts = [
        "# Reference",
        "",
        "Written by `tools/make_reference.py` from the op table, the package and the probes of "
        "Theano's names; a test fails when it is stale.",
        "",
        "- [Ops](#ops)",
        "- [Functions](#functions)",
        "- [Theano's names](#theanos-names)",
        "- [Theano's modules](#theanos-modules)",
        "",
        "## Ops",
        "",
        "Inputs are expressions; constants are fixed when the expression is built. Dtypes are "
        "those that its function takes. `kernel`: compiled loops, fused with their neighbours; "
        "`view`: another way to look at memory; the others are libraries, the first choice first, "
        "and `native` is our own routine. `as other ops`: the compiler writes it out.",
        "",
        *row_table(),
        "## Functions",
        "",
        *function_tables(),
        "## Theano's names",
        "",
        *names_part(found),
        "## Theano's modules",
        "",
        *modules_part(modules),
    ]
    return "\n".join(parts).rstrip() + "\n"


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        found, problems = theano_names.statuses(pathlib.Path(directory))
    modules, wrong = theano_modules.statuses()
    problems += wrong
    for problem in problems:
        print(problem, file=sys.stderr)
    text = make(found, modules)
    if "--check" in sys.argv:
        same = TARGET.exists() and TARGET.read_text() == text
        print("up to date" if same else f"{TARGET} is stale: run tools/make_reference.py")
        return 0 if same and not problems else 1
    TARGET.write_text(text)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
