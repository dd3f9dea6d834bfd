"""Looking at expressions (`debugprint`, `pp`) and at values while they are computed (`Print`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from snug import _core

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floor_div": "//",
    "mod": "%",
    "pow": "**",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "bit_and": "&",
    "bit_or": "|",
    "bit_xor": "^",
    "shl": "<<",
    "shr": ">>",
}
_MAX_TEXT = 4000  # a shared part may appear many times; longer texts are cut


def _letters(number: int) -> str:
    text = ""
    while True:
        text = chr(ord("A") + number % 26) + text
        number = number // 26 - 1
        if number < 0:
            return text


def _short_constant(v: _core.TensorConstant) -> str:
    if v.ndim == 0:
        return str(v.data)
    return f"{v.data.dtype} {v.data.shape}"


def _leaf(v: _core.Variable) -> str:
    if isinstance(v, _core.TensorConstant):
        return v.name or f"TensorConstant{{{_short_constant(v)}}}"
    return v.name or f"<{v.type}>"


def debugprint(
    obj: Any,
    depth: int = -1,
    print_type: bool = False,
    file: Any = None,
    ids: str = "CHAR",
    stop_on_name: bool = False,
) -> str | None:
    """Prints expressions as an indented tree, one line per node; a node that was shown before is
    named again by its id and not unfolded.

    obj   a variable, a list of them, or a compiled function
    file  where to print; "str" returns the text instead
    ids   "CHAR", "int" or "" for none
    """
    if isinstance(obj, _core.Function):
        lines = [obj.explain()]
    else:
        lines = _tree(obj, depth, print_type, ids, stop_on_name)
    text = "\n".join(lines) + "\n"
    if file == "str":
        return text
    (sys.stdout if file is None else file).write(text)
    return None


def _tree(obj: Any, depth: int, print_type: bool, ids: str, stop_on_name: bool) -> list[str]:
    roots = list(obj) if isinstance(obj, (list, tuple)) else [obj]
    roots = [r.outputs[0] if isinstance(r, _core.Apply) else r for r in roots]
    lines: list[str] = []
    numbers: dict[Any, int] = {}
    shown: set[Any] = set()
    stack = [(r, "", "", 0) for r in reversed(roots)]
    while stack:
        v, prefix, below, level = stack.pop()
        owner = v.owner
        node = owner if owner is not None else v
        number = numbers.setdefault(node, len(numbers))
        if owner is None:
            text = _leaf(v)
        else:
            text = str(owner.op)
            if len(owner.outputs) > 1:
                text += f".{v.index}"
        if ids:
            text += f" [id {_letters(number) if ids == 'CHAR' else number}]"
        if owner is not None and v.name:
            text += f" '{v.name}'"
        if print_type:
            text += f" <{v.type}>"
        lines.append(prefix + text)
        if owner is None or (stop_on_name and v.name) or (depth >= 0 and level + 1 >= depth):
            continue
        if node in shown:
            lines.append(f"{below} |...")
            continue
        shown.add(node)
        inputs = owner.inputs
        for i in range(len(inputs) - 1, -1, -1):
            last = i == len(inputs) - 1
            stack.append((inputs[i], f"{below} |", below + ("  " if last else " |"), level + 1))
    return lines


def pp(expression: _core.Variable) -> str:
    """The expression as one line of text: "tanh((x + 1))"."""
    texts: dict[Any, str] = {}
    for v in _core.ancestors([expression]):
        if v.owner is None or (v.name and v is not expression):
            texts[v] = v.name or (
                _short_constant(v) if isinstance(v, _core.TensorConstant) else _leaf(v)
            )
            continue
        name = v.owner.op.name
        inputs = [texts[x] for x in v.owner.inputs]
        if name in _INFIX and len(inputs) == 2:
            text = f"({inputs[0]} {_INFIX[name]} {inputs[1]})"
        elif name == "neg":
            text = f"(-{inputs[0]})"
        elif name == "dimshuffle" and v.owner.op.attrs["pattern"] == [1, 0]:
            text = f"{inputs[0]}.T"
        else:
            text = f"{v.owner.op}({', '.join(inputs)})"
        texts[v] = text if len(text) <= _MAX_TEXT else f"{name}(...)"
    return texts[expression]


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
