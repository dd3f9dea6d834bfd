"""Writes docs/reference.md: the rows of the op table, the functions of the package, and Theano's
names with what Snug has of them.

    python tools/make_reference.py           writes it
    python tools/make_reference.py --check   says whether it is what would be written
"""

from __future__ import annotations

import importlib
import inspect
import pathlib
import re
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

import theano_names
from row_examples import DTYPES, ROWS, constants_of, example_of, takes

import snug

TARGET = pathlib.Path(__file__).parent.parent / "docs" / "reference.md"
MODULES = {
    "snug.tensor": "Tensors",
    "snug.tensor.nnet": "Networks",
    "snug.tensor.extra_ops": "More functions over tensors",
    "snug.tensor.slinalg": "Factorisations and linear systems",
    "snug.tensor.nlinalg": "Linear algebra",
    "snug.tensor.fft": "Fourier transforms",
    "snug.gradient": "Gradients",
}


def table(header: Iterable[str], lines: Iterable[Iterable[str]]) -> list[str]:
    header = list(header)
    cell = lambda text: str(text).replace("|", "\\|").replace("\n", " ")
    rows = ["| " + " | ".join(map(cell, line)) + " |" for line in lines]
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *rows, ""]


# ---- rows

GROUPS = {
    "all": DTYPES,
    "numbers": DTYPES[1:],
    "integers": DTYPES[1:9],
    "integers, bool": DTYPES[:9],
    "floats": DTYPES[9:],
    "float32, float64": DTYPES[11:13],
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
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        found = re.match(rf"{re.escape(name)}(\(.*?\))(?: ->|$)", value.__doc__ or "", re.MULTILINE)
        text = found.group(1) if found else "(...)"
        return name + re.sub(r": [^,)=]+(\[[^\]]*\])?( = )?", lambda m: "=" if m[2] else "", text)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return name + str(inspect.Signature(bare))


def first_line(value: Any) -> str:
    lines = (inspect.getdoc(value) or "").splitlines()
    while lines and (not lines[0].strip() or re.match(r"\w+\(.*\)( ->.*)?$", lines[0])):
        lines.pop(0)
    paragraph = []
    for line in lines:
        if not line.strip():
            break
        paragraph.append(line.strip())
    return re.split(r"(?<=[.:;]) ", " ".join(paragraph))[0]


def functions_of(module: Any) -> list[tuple[str, Any]]:
    """The public functions of a module, each under its own name."""
    names = getattr(module, "__all__", None) or dir(module)
    found = []
    for name in sorted(set(names)):
        value = getattr(module, name)
        if name.startswith("_") or isinstance(value, type) or inspect.ismodule(value):
            continue
        if not callable(value) or isinstance(value, (snug.Variable, snug.tensor.TensorType)):
            continue
        home = getattr(value, "__module__", None) or ""
        if home.startswith("snug"):
            found.append((name, value))
    return found


def function_tables() -> list[str]:
    out = []
    listed: set[int] = set()
    for path, title in MODULES.items():
        try:
            module = importlib.import_module(path)
        except ModuleNotFoundError:
            continue
        lines = []
        for name, value in functions_of(module):
            if path == "snug.gradient" or id(value) not in listed or path.count(".") > 1:
                lines.append([f"`{signature_of(name, value)}`", first_line(value)])
            listed.add(id(value))
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


def make(found: dict[Any, Any]) -> str:
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
        "",
        "## Ops",
        "",
        "Inputs are expressions; constants are fixed when the expression is built. Dtypes are those "
        "the op takes; public functions cast for those that take fewer. `kernel`: compiled loops, "
        "fused with their neighbours; `view`: another way to look at memory; the others are "
        "libraries, the first choice first, and `native` is our own routine. `as other ops`: the "
        "compiler writes it out.",
        "",
        *row_table(),
        "## Functions",
        "",
        *function_tables(),
        "## Theano's names",
        "",
        *names_part(found),
    ]
    return "\n".join(parts).rstrip() + "\n"


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        found, problems = theano_names.statuses(pathlib.Path(directory))
    for problem in problems:
        print(problem, file=sys.stderr)
    text = make(found)
    if "--check" in sys.argv:
        same = TARGET.exists() and TARGET.read_text() == text
        print("up to date" if same else f"{TARGET} is stale: run tools/make_reference.py")
        return 0 if same and not problems else 1
    TARGET.write_text(text)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
