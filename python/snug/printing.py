"""Looking at expressions and functions, in Theano's formats (`debugprint`, `pp`, `pydotprint`), and
at values while they are computed (`Print`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from snug import _core
from snug._errors import error
from snug._theano_view import View, type_text, view

__all__ = [
    "debugprint",
    "default_colorCodes",
    "min_informative_str",
    "pp",
    "pprint",
    "pydotprint",
    "var_descriptor",
]

_MAX_TEXT = 4000  # a shared part may appear many times; longer texts are cut


def _letters(number: int) -> str:
    """A, B, ... Z, BA, BB, ...: digits to the base of 26."""
    text = chr(ord("A") + number % 26)
    while number >= 26:
        number //= 26
        text = chr(ord("A") + number % 26) + text
    return text


def _roots(obj: Any) -> tuple[list[Any], dict[Any, int]]:
    """The variables to begin with, and the order in which a function runs its applies."""
    if isinstance(obj, (list, tuple, set)):
        found = [_roots(o) for o in obj]
        return [v for roots, _ in found for v in roots], {
            node: number for _, order in found for node, number in order.items()
        }
    if isinstance(obj, _core.Function):
        obj = obj.maker.fgraph
    if hasattr(obj, "toposort"):  # a graph
        return list(obj.outputs), {node: n for n, node in enumerate(obj.toposort())}
    if isinstance(obj, _core.Apply):
        return [obj.outputs[0]], {}
    if isinstance(obj, _core.Variable):
        return [obj], {}
    raise error(
        TypeError,
        f"printing: cannot print a {type(obj).__name__}",
        "give a variable, a list of them, or a function",
    )


def debugprint(
    obj: Any,
    depth: int = -1,
    print_type: bool = False,
    file: Any = None,
    ids: str = "CHAR",
    stop_on_name: bool = False,
    done: dict[Any, Any] | None = None,
    print_storage: bool = False,
    print_clients: bool = False,
    used_ids: dict[Any, str] | None = None,
) -> Any:
    """Prints expressions as an indented tree, one line per node, in Theano's format. A node that
    was shown before is not unfolded again; its id says which one it is.

    obj            a variable, an apply, a function, or a list of these
    depth          how many levels to print; -1 for all
    print_type     also the types
    file           where to print; "str" gives the text instead
    ids            "CHAR", "int", "id" (Python's) or "" for none
    stop_on_name   nothing below a node that has a name
    print_storage  the values of shared variables beside them
    print_clients  which nodes use a node, where there are several
    done, used_ids dicts that several calls may share, so that they use the same ids
    """
    if ids not in ("CHAR", "int", "id", ""):
        raise error(ValueError, f"debugprint: ids is {ids!r}", "choose 'CHAR', 'int', 'id' or ''")
    if not isinstance(depth, int):
        raise error(TypeError, f"debugprint: depth must be an integer, got {depth!r}")
    roots, order = _roots(obj)
    tree = _Tree(
        depth,
        print_type,
        ids,
        stop_on_name,
        print_storage,
        {} if done is None else done,
        {} if used_ids is None else used_ids,
        order,
        _clients(roots) if print_clients else {},
    )
    text = "".join(line + "\n" for line in tree.lines(roots))
    if file == "str":
        return text
    stream = sys.stdout if file is None else file
    stream.write(text)
    stream.flush()
    return stream


def _clients(roots: list[Any]) -> dict[Any, list[Any]]:
    """The nodes that use each node."""
    clients: dict[Any, list[Any]] = {}
    seen = set()
    stack = [view(r) for r in reversed(roots)]
    while stack:
        node = stack.pop()
        if node.key in seen:
            continue
        seen.add(node.key)
        inputs = [view(v) for v in node.inputs]
        for child in inputs:
            clients.setdefault(child.key, []).append(node.key)
        stack += reversed(inputs)
    return clients


class _Tree:
    """The lines of a tree."""

    def __init__(
        self,
        depth: int,
        print_type: bool,
        ids: str,
        stop_on_name: bool,
        print_storage: bool,
        done: dict[Any, Any],
        used_ids: dict[Any, str],
        order: dict[Any, int],
        clients: dict[Any, list[Any]],
    ):
        self.depth, self.print_type, self.ids = depth, print_type, ids
        self.stop_on_name, self.print_storage = stop_on_name, print_storage
        self.done, self.used_ids, self.order, self.clients = done, used_ids, order, clients

    def identifier(self, key: Any) -> str:
        if key not in self.used_ids:
            number = len(self.used_ids)
            self.used_ids[key] = {
                "CHAR": lambda: f"[id {_letters(number)}]",
                "int": lambda: f"[id {number}]",
                "id": lambda: f"[id {id(key)}]",
                "": lambda: "",
            }[self.ids]()
        return self.used_ids[key]

    def lines(self, roots: list[Any]) -> Iterator[str]:
        stack = [(r, "", "", self.depth) for r in reversed(roots)]
        while stack:
            v, prefix, below, depth = stack.pop()
            if depth == 0:
                continue
            node = view(v)
            text = f"{prefix}{node.text} {self.identifier(node.key)}"
            if self.print_type:
                text += f" {type_text(node.type)}"
            if node.leaf:
                if self.print_storage and isinstance(v, _core.SharedVariable):
                    text += f" {v.get_value(borrow=True)}"
                yield text
                continue
            text += f" '{node.name}'   {self.order.get(node.key, '')}"
            clients = self.clients.get(node.key, [])
            if len(clients) > 1:
                text += f" clients:[{', '.join(self.identifier(c) for c in clients)}]"
            yield text
            if node.key in self.done or (self.stop_on_name and node.name):
                continue
            self.done[node.key] = ""
            last = len(node.inputs) - 1
            for i in range(last, -1, -1):
                inner = below + ("  " if i == last else " |")
                stack.append((node.inputs[i], f"{below} |", inner, depth - 1))


# ---- one line


def _dimshuffled(pattern: list[int], x: str) -> str:
    if len(pattern) > 1 and pattern == list(reversed(range(len(pattern)))):
        return f"{x}.T"
    while pattern and pattern[0] < 0:  # broadcasting would add these axes by itself
        pattern = pattern[1:]
    if pattern == list(range(len(pattern))):
        return x
    return f"DimShuffle{{{', '.join('x' if a < 0 else str(a) for a in pattern)}}}({x})"


def _subscript(spec: list[int], numbers: list[str]) -> str:
    given = iter(numbers)
    entries = []
    for i in range(0, len(spec), 4):
        if spec[i]:
            entries.append(next(given))
            continue
        start, stop, step = (next(given) if has else "" for has in spec[i + 1 : i + 4])
        entries.append(f"{start}:{stop}" + (f":{step}" if step else ""))
    return ", ".join(entries)


def _line(node: View, inputs: list[str]) -> str:
    """A node as text, given the texts of its inputs."""
    kind, what = node.pretty
    if node.leaf:
        return node.text
    if kind == "infix":
        return f"({f' {what} '.join(inputs)})"
    if kind == "prefix":
        return f"({what}{inputs[0]})"
    if kind == "around":
        return f"{what}{inputs[0]}{what}"
    if kind == "list":
        return f"[{', '.join(inputs)}]"
    if kind == "dimshuffle":
        return _dimshuffled(what, inputs[0])
    if kind == "subtensor":
        return f"{inputs[0]}[{_subscript(what, inputs[1:])}]"
    return f"{what if kind == 'call' else node.op}({', '.join(inputs)})"


def pp(expression: Any) -> str:
    """The expression as one line of text: "(tanh(x) + y)"."""
    roots, _ = _roots(expression)
    texts: dict[Any, str] = {}
    stack = [(view(r), False) for r in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        place = (node.key, node.index)
        if place in texts:
            continue
        inputs = [view(v) for v in node.inputs]
        if not ready:
            stack.append((node, True))
            stack += [(i, False) for i in inputs]
            continue
        text = _line(node, [texts[i.key, i.index] for i in inputs])
        texts[place] = text if len(text) <= _MAX_TEXT else f"{node.op}(...)"
    return ", ".join(texts[view(r).key, view(r).index] for r in roots)


pprint = pp


def min_informative_str(obj: Any, indent_level: int = 0) -> str:
    """The expression as an indented tree in which every node has a letter; a node that was shown
    before is its letter in angle brackets."""
    lines = []
    tags: dict[Any, str] = {}
    stack = [(v, indent_level) for v in reversed(_roots(obj)[0])]
    while stack:
        v, indent = stack.pop()
        node = view(v)
        if node.key in tags:
            lines.append(f"{' ' * indent}<{tags[node.key]}>")
            continue
        tags[node.key] = _letters(len(tags))
        text = node.text if node.leaf else node.name or node.text
        lines.append(f"{' ' * indent}{tags[node.key]}. {text}")
        if node.leaf or not node.name:
            stack += [(i, indent + 1) for i in reversed(node.inputs)]
    return "\n".join(lines)


def var_descriptor(obj: Any) -> str:
    """The expression as one line in which every node has a letter: two expressions of the same
    structure have the same text."""
    parts: list[str] = []
    tags: dict[Any, str] = {}
    stack: list[Any] = list(reversed(_roots(obj)[0]))
    while stack:
        v = stack.pop()
        if isinstance(v, str):
            parts.append(v)
            continue
        node = view(v)
        if node.key in tags:
            parts.append(f"<{tags[node.key]}>")
            continue
        tags[node.key] = _letters(len(tags))
        parts.append(f"{tags[node.key]}={node.text}")
        if node.inputs:
            pieces: list[Any] = ["("]
            for i, child in enumerate(node.inputs):
                pieces += [",", child] if i else [child]
            stack += reversed([*pieces, ")"])
    return "".join(parts)


# ---- pictures

default_colorCodes = {
    "GpuFromHost": "red",
    "HostFromGpu": "red",
    "Scan": "yellow",
    "Shape": "brown",
    "IfElse": "magenta",
    "Elemwise": "#FFAABB",
    "Subtensor": "#FFAAFF",
    "Alloc": "#FFAA22",
    "Output": "blue",
}


def pydotprint(
    fct: Any,
    outfile: Any = None,
    compact: bool = True,
    format: str = "png",
    with_ids: bool = False,
    high_contrast: bool = True,
    cond_highlight: Any = None,
    colorCodes: dict[str, str] | None = None,
    max_label_size: int = 70,
    scan_graphs: bool = False,
    var_with_name_simple: bool = False,
    print_output_file: bool = True,
    return_image: bool = False,
) -> Any:
    """Draws the graph of a function or of expressions with Graphviz, in Theano's colours: ellipses
    are ops, boxes are variables; inputs green, outputs blue, shared variables cyan.

    outfile       the file; without a name, snug.pydotprint.FORMAT in the working directory
    format        every format that `dot -T` knows: "png", "svg", "pdf", "dot"
    compact       leaves out variables in the middle that have no name
    with_ids      the order of the ops in their labels
    return_image  gives the picture (bytes) instead of writing a file
    """
    if outfile is None:
        outfile = f"snug.pydotprint.{format}"
    source = _dot_source(
        fct, compact, with_ids, high_contrast, colorCodes, max_label_size, var_with_name_simple
    )
    picture = _drawn(source, format)
    if return_image:
        return picture
    path = os.fspath(outfile)
    if not path.endswith("." + format):
        path += "." + format
    with open(path, "wb") as file:
        file.write(picture)
    if print_output_file:
        print("The output file is available at", path)
    return None


def _drawn(source: str, format: str) -> bytes:
    try:
        done = subprocess.run(
            ["dot", f"-T{format}"], input=source.encode(), capture_output=True, check=False
        )
    except FileNotFoundError:
        raise RuntimeError(
            "pydotprint: Graphviz is not installed: there is no program `dot`\n"
            "  hint  install it (Debian: apt install graphviz)"
        ) from None
    if done.returncode != 0:
        text = done.stderr.decode(errors="replace").strip()
        raise error(ValueError, f"pydotprint: dot failed: {text}")
    return done.stdout


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _dot_source(
    fct: Any,
    compact: bool,
    with_ids: bool,
    high_contrast: bool,
    colors: dict[str, str] | None,
    max_label_size: int,
    simple: bool,
) -> str:
    """The graph in Graphviz's language."""
    codes = default_colorCodes if colors is None else colors
    roots, order = _roots(fct)
    lines = ["digraph {"]
    names: dict[Any, str] = {}

    def box(place: Any, label: str, shape: str, color: str | None) -> str:
        if place not in names:
            names[place] = f"n{len(names)}"
            if len(label) > max_label_size:
                label = label[: max_label_size - 3] + "..."
            look = f"shape={shape}"
            if color:
                look += f', color="{color}"' + (", style=filled" if high_contrast else "")
                if high_contrast and color in ("blue", "brown"):  # dark ones
                    look += ", fontcolor=white"
            lines.append(f"  {names[place]} [label={_quoted(label)}, {look}];")
        return names[place]

    def variable_label(node: View, name: str) -> str:
        if node.leaf and node.text.startswith("TensorConstant"):
            return f"{node.text} {node.type}" if not simple else node.text
        return name if name and simple else f"{name} {node.type}".strip()

    def variable(v: Any, node: View) -> str:
        """The box of a variable that is a leaf, an output, or has a name."""
        if isinstance(v, _core.SharedVariable):
            color: str | None = "cyan"
        elif node.leaf:
            color = None if node.text.startswith(("TensorConstant", "Constant")) else "green"
        else:
            color = "blue" if (node.key, node.index) in outputs else None
        name = "" if node.leaf and node.text.startswith("<") else node.name
        if node.leaf and not node.text.startswith("<"):
            name = node.text
        return box(("variable", node.key, node.index), variable_label(node, name), "box", color)

    def operation(node: View) -> str:
        color = next((c for key, c in codes.items() if key in node.op), None)
        number = f" id={order[node.key]}" if with_ids and node.key in order else ""
        return box(("op", node.key), node.op + number, "ellipse", color)

    outputs = {(view(r).key, view(r).index) for r in roots}
    seen = set()
    stack = list(reversed(roots))
    while stack:
        v = stack.pop()
        node = view(v)
        place = (node.key, node.index)
        if place in seen:
            continue
        seen.add(place)
        if node.leaf:
            variable(v, node)
            continue
        op = operation(node)
        if place in outputs or not compact or node.name:
            label = "" if node.name else str(node.type)
            lines.append(f"  {op} -> {variable(v, node)} [label={_quoted(label)}];")
        if ("inputs", node.key) in seen:
            continue
        seen.add(("inputs", node.key))
        for i, x in enumerate(node.inputs):
            child = view(x)
            shown = child.leaf or not compact or child.name
            shown = shown or (child.key, child.index) in outputs
            source = variable(x, child) if shown else operation(child)
            label = str(i) if len(node.inputs) > 1 else ""
            if not shown:
                label = f"{label} {child.type}".strip()
            lines.append(f"  {source} -> {op} [label={_quoted(label)}];")
            stack.append(x)
    return "\n".join([*lines, "}", ""])


# ---- values while they are computed


def _print_fn(op: Print, value: Any) -> None:
    for name in op.attrs:
        attribute = getattr(value, name)
        print(op.message, name, "=", attribute() if callable(attribute) else attribute)


class Print:
    """An identity that shows its argument whenever it is computed: Print("x is")(x).

    message    stands in front of every line
    attrs      attributes of the NumPy array to print; those that can be called are called
    global_fn  called with this object and the array, instead of printing. It must not use the
               shared variables of the running function, which are locked; what it raises ends the
               call, and shared variables are as they were
    """

    def __init__(
        self,
        message: str = "",
        attrs: Sequence[str] = ("__str__",),
        global_fn: Callable[[Print, Any], Any] = _print_fn,
    ) -> None:
        self.message = message
        self.attrs = tuple(attrs)
        self.global_fn = global_fn

    def __call__(self, x: Any) -> _core.Variable:
        return _core.print_value(x, str(self.message), lambda value: self.global_fn(self, value))
