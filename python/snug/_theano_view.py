"""Expressions as Theano shows them: its names of ops, and its nodes where ours are parted in
another way. `view(v)` is one node of that picture, and its inputs are the next ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from snug import _core

# Theano's names of elementwise ops, where they are not ours.
_SCALAR_NAMES = {
    "abs": "abs_",
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bit_and": "and_",
    "bit_or": "or_",
    "bit_xor": "xor",
    "div": "true_div",
    "floor_div": "int_div",
    "ne": "neq",
    "round": "round_half_to_even",
    "sign": "sgn",
}


class View(NamedTuple):
    """One node."""

    key: Hashable  # nodes of equal keys have one id
    op: str  # the op, or the whole text of a leaf
    inputs: Sequence[Any] = ()  # variables and views
    index: int | None = None  # which output it is, if there are several
    name: str = ""
    type: Any = None
    leaf: bool = False
    pretty: tuple[str, Any] = ("", None)  # how pp writes it, see printing.pp

    @property
    def text(self) -> str:
        return self.op if self.index is None else f"{self.op}.{self.index}"


def constant_text(data: np.ndarray) -> str:
    """The value of a constant: whole if it is short, "(3, 4) of 1.0" if all are equal."""
    if data.ndim > 0 and data.size > 0 and np.all(data == data.flat[0]):
        return f"{data.shape} of {_scalar_text(data.flat[0])}"
    if data.ndim == 0:
        return _scalar_text(data[()])
    text = str(data)
    return text if len(text) <= 20 else f"{text[:10]}..{text[-10:]}"


def _scalar_text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    return str(value)


def type_text(x: Any) -> str:
    return f"<{x}>"


def _leaf(v: _core.Variable) -> View:
    if isinstance(v, _core.TensorConstant):
        data = v.data
        # Theano makes one object of equal small numbers.
        small = data.ndim == 0 and data.dtype.kind != "c" and abs(float(data)) <= 10
        key: Hashable = (str(data.dtype), data.item()) if small else v
        return View(key, f"TensorConstant{{{constant_text(data)}}}", type=v.type, leaf=True)
    return View(v, v.name or type_text(v.type), type=v.type, leaf=True)


def _constant(key: Hashable, value: Any, kind: str = "TensorConstant") -> View:
    """A constant that is an attribute of our op and an input of Theano's."""
    return View(key, f"{kind}{{{value}}}", type="TensorType(int8, scalar)", leaf=True)


def _small(value: int) -> View:
    return _constant(("int8", value), value)


# ---- the names of ops


def _axes(attrs: dict[str, Any]) -> str:
    return ", ".join(map(str, attrs["axes"]))


def _over_all(attrs: dict[str, Any], inputs: Sequence[_core.Variable]) -> bool:
    return bool(inputs) and len(attrs["axes"]) == inputs[0].ndim


def _sum_text(attrs: dict[str, Any], inputs: Sequence[_core.Variable]) -> str:
    # Theano tells sum() from a sum over all axes by number; the first is written more often.
    axis = "" if _over_all(attrs, inputs) else f"axis=[{_axes(attrs)}], "
    return f"Sum{{{axis}acc_dtype={attrs['acc']}}}"


def _prod_text(attrs: dict[str, Any], inputs: Sequence[_core.Variable]) -> str:
    axis = None if _over_all(attrs, inputs) else tuple(attrs["axes"])
    return f"Prod{{axis={axis}, dtype='{attrs['dtype']}', acc_dtype='{attrs['acc']}'}}"


def _dimshuffle_text(attrs: dict[str, Any], inputs: Sequence[_core.Variable]) -> str:
    pattern = ",".join("x" if a < 0 else str(a) for a in attrs["pattern"])
    return f"InplaceDimShuffle{{{pattern}}}"


def _rebroadcast_text(attrs: dict[str, Any], inputs: Sequence[_core.Variable]) -> str:
    before = inputs[0].broadcastable if inputs else ()
    flags = [attrs["broadcast"] >> a & 1 for a in range(len(before))]
    changed = ["?" if flag == old else str(flag) for flag, old in zip(flags, before)]
    return f"Rebroadcast{{{','.join(changed).rstrip('?,')}}}"


def _index_text(spec: Sequence[int], numbers: Sequence[_core.Variable]) -> str:
    """The index of a slice: "int64, :int32:"; spec has four numbers per axis: whether it is a
    single index, and whether start, stop and step are given."""
    dtypes = iter("int64" if isinstance(n, _core.TensorConstant) else n.dtype for n in numbers)
    entries = []
    for i in range(0, len(spec), 4):
        if spec[i]:
            entries.append(next(dtypes, "int64"))
            continue
        parts = [next(dtypes, "int64") if given else "" for given in spec[i + 1 : i + 4]]
        entries.append(":".join(parts))
    return ", ".join(entries)


def _transfer_text(device: str | None) -> str:
    return "HostFromGpu(gpuarray)" if device == "cpu" else f"GpuFromHost<{device}>"


def _scatter_text(kind: str, inputs: Sequence[_core.Variable]) -> str:
    if len(inputs) == 3:
        return f"AdvancedIncSubtensor1{{no_inplace,{kind}}}"
    return f"AdvancedIncSubtensor{{inplace=False,  set_instead_of_inc={kind == 'set'}}}"


def _broadcast_text(attrs: dict[str, Any], inputs: Sequence[_core.Variable]) -> str:
    return "SpecifyShape" if attrs.get("for") == "specify_shape" else "Alloc"


def _solve_text(attrs: dict[str, Any], inputs: Sequence[_core.Variable]) -> str:
    kind = attrs["kind"]
    structure = f"{kind}_triangular" if kind in ("lower", "upper") else kind
    return (
        f"Solve{{A_structure='{structure}', lower={kind == 'lower'}, "
        "overwrite_A=False, overwrite_b=False}"
    )


# Theano's names of ops that are not elementwise or that it writes in another way: a text, or what
# makes it of the attributes and the inputs.
_NAMES: dict[str, str | Callable[[dict[str, Any], Sequence[_core.Variable]], str]] = {
    "all": lambda a, x: "All" if _over_all(a, x) else f"All{{{_axes(a)}}}",
    "any": lambda a, x: "Any" if _over_all(a, x) else f"Any{{{_axes(a)}}}",
    "arange": lambda a, x: f"ARange{{dtype='{a['dtype']}'}}",
    "argmax": lambda a, x: f"MaxAndArgmax{{axis={tuple(a['axes'])}}}",
    "argmin": lambda a, x: f"MinAndArgmin{{axis={tuple(a['axes'])}}}",
    "batched_dot": "BatchedDot",
    "broadcast_to": _broadcast_text,
    "cast": lambda a, x: f"Elemwise{{Cast{{{a['dtype']}}}}}",
    "cholesky": lambda a, x: f"Cholesky{{lower={a['lower']}, destructive=False, on_error='raise'}}",
    "concatenate": "Join",
    "dimshuffle": _dimshuffle_text,
    "dot": "dot",
    "eye": lambda a, x: f"Eye{{dtype='{a['dtype']}'}}",
    "gather": lambda a, x: "AdvancedSubtensor1" if len(x) == 2 else "AdvancedSubtensor",
    "log_softmax": "LogSoftmax",
    "loop": "for{cpu,scan_fn}",
    "make_vector": "MakeVector{dtype='int64'}",
    "max": lambda a, x: f"MaxAndArgmax{{axis={tuple(a['axes'])}}}",
    "min": lambda a, x: f"MinAndArgmin{{axis={tuple(a['axes'])}}}",
    "nonzero": "Nonzero",
    "prod": _prod_text,
    "rebroadcast": _rebroadcast_text,
    "reshape": lambda a, x: f"Reshape{{{a['ndim']}}}",
    "scatter_add": lambda a, x: _scatter_text("inc", x),
    "scatter_set": lambda a, x: _scatter_text("set", x),
    "shape": "Shape",
    "sigmoid": "sigmoid",
    "slice": lambda a, x: f"Subtensor{{{_index_text(a['spec'], x[1:])}}}",
    "slice_inc": lambda a, x: f"IncSubtensor{{Inc;{_index_text(a['spec'], x[2:])}}}",
    "slice_set": lambda a, x: f"IncSubtensor{{Set;{_index_text(a['spec'], x[2:])}}}",
    "softmax": "Softmax",
    "softplus": "softplus",
    "solve": _solve_text,
    "disconnected_grad": "DisconnectedGrad",
    "grad_clip": "GradClip",
    "grad_scale": "GradScale",
    "stop_gradient": "ZeroGrad",
    "on_device": lambda a, x: _transfer_text(a["device"]),
    "undefined_grad": "UndefinedGrad",
    "sum": _sum_text,
}


def op_text(op: _core.Op, inputs: Sequence[_core.Variable] = ()) -> str:
    """Theano's name of an op; of the inputs only the types matter."""
    if op.name == "transfer":  # of placement, so no row
        return _transfer_text("cpu" if op.attrs["device"] == 0 else None)
    name = _NAMES.get(op.name)
    if name is not None:
        return name if isinstance(name, str) else name(op.attrs, inputs)
    if op.elementwise:
        there = "Gpu" if isinstance(op, _core.GpuOp) else ""
        return f"{there}Elemwise{{{_SCALAR_NAMES.get(op.name, op.name)},no_inplace}}"
    return _core.op_text(op)


# ---- nodes that are parted in another way

_Rule = Callable[[_core.Variable, Any, Sequence[Any]], View]


def _scalar(owner: Any, n: int, x: _core.Variable) -> View:
    """A number of an index, which Theano has outside of tensors."""
    if isinstance(x, _core.TensorConstant):
        return _constant((owner, n), x.data.item(), "Constant")
    return View((owner, n), "ScalarFromTensor", [x], type=f"Scalar({x.dtype})")


def _slice(v: _core.Variable, owner: Any, inputs: Sequence[Any]) -> View:
    first = 1 if owner.op.name == "slice" else 2
    numbers = [_scalar(owner, n, x) for n, x in enumerate(inputs[first:])]
    data = [inputs[0]] if first == 1 else [inputs[0], _value_of_update(inputs[1])]
    pretty = ("subtensor", owner.op.attrs["spec"]) if first == 1 else ("", None)
    return View(owner, op_text(owner.op, inputs), [*data, *numbers], type=v.type, pretty=pretty)


def _value_of_update(y: _core.Variable) -> _core.Variable:
    """The value of set_subtensor before it was stretched and converted."""
    if y.owner is not None and y.owner.op.name == "broadcast_to":
        y = y.owner.inputs[0]
    if y.owner is not None and y.owner.op.name == "cast":
        y = y.owner.inputs[0]
    return y


def _unchecked(i: _core.Variable) -> _core.Variable:
    return i.owner.inputs[0] if i.owner is not None and i.owner.op.name == "check_index" else i


def _gather(v: _core.Variable, owner: Any, inputs: Sequence[Any]) -> View:
    if owner.op.name == "gather":
        shown = [inputs[0], *map(_unchecked, inputs[1:])]
    else:
        shown = [inputs[0], _value_of_update(inputs[1]), *map(_unchecked, inputs[2:])]
    return View(owner, op_text(owner.op, inputs), shown, type=v.type)


def _concatenate(v: _core.Variable, owner: Any, inputs: Sequence[Any]) -> View:
    shown = [_small(owner.op.attrs["axis"]), *inputs]
    return View(owner, "Join", shown, type=v.type, pretty=("call", "join"))


def _sizes(owner: Any, shape: _core.Variable) -> list[Any]:
    """The elements of a shape, one by one."""
    if isinstance(shape, _core.TensorConstant):
        return [_small(n) for n in shape.data.tolist()]
    if shape.owner is not None and shape.owner.op.name == "make_vector":
        return list(shape.owner.inputs)
    return [shape]


def _broadcast_to(v: _core.Variable, owner: Any, inputs: Sequence[Any]) -> View:
    value, shape = inputs
    text = op_text(owner.op, inputs)
    if text == "SpecifyShape":
        return View(owner, text, inputs, type=v.type)
    if shape.owner is not None and shape.owner.op.name == "shape":
        like = shape.owner.inputs[0]
        if value.ndim == 0:
            value = _stretched((owner, "x"), value, v.dtype, v.ndim)
        shown = [like, value]
        return View(
            owner, "Elemwise{second,no_inplace}", shown, type=v.type, pretty=("call", "fill")
        )
    return View(owner, text, [value, *_sizes(owner, shape)], type=v.type, pretty=("call", "alloc"))


def _arange(v: _core.Variable, owner: Any, inputs: Sequence[Any]) -> View:
    start, step, stop = inputs
    return View(owner, op_text(owner.op), [start, stop, step], type=v.type)


def _eye(v: _core.Variable, owner: Any, inputs: Sequence[Any]) -> View:
    return View(owner, op_text(owner.op), [*inputs, _small(owner.op.attrs["k"])], type=v.type)


def _maximum_over(v: _core.Variable, owner: Any, inputs: Sequence[Any]) -> View:
    name = owner.op.name
    index = int(name.startswith("arg"))
    text = op_text(owner.op, inputs)
    return View(owner, text, inputs, index, v.name or name, v.type)


def _dimshuffle(v: _core.Variable, owner: Any, inputs: Sequence[Any]) -> View:
    pattern = owner.op.attrs["pattern"]
    (x,) = inputs
    product = x.owner
    if product is not None and product.op.name == "dot" and max(pattern, default=0) < 2:
        # A product with a vector: the vector was made a matrix before and is one again here.
        left, right = product.inputs
        if 0 not in pattern:
            left = _vector_of(left, [-1, 0])
        if 1 not in pattern:
            right = _vector_of(right, [0, -1])
        if left is not None and right is not None and len(pattern) < 2:
            return View(owner, "dot", [left, right], type=v.type, pretty=("infix", "\\dot"))
    name = v.name or ""
    if not name and x.name and pattern == list(reversed(range(x.ndim))) and x.ndim > 1:
        name = f"{x.name}.T"
    pretty = ("dimshuffle", pattern)
    return View(owner, op_text(owner.op), inputs, None, name, v.type, pretty=pretty)


def _vector_of(x: _core.Variable, pattern: list[int]) -> _core.Variable | None:
    """The vector that was made this matrix, if one was."""
    owner = x.owner
    if owner is None or owner.op.name != "dimshuffle" or owner.op.attrs["pattern"] != pattern:
        return None
    return owner.inputs[0]


def _mean(v: _core.Variable, owner: Any, inputs: Sequence[Any]) -> View:
    """Theano's mean divides by one size after the other; ours by their product."""
    total, count = (_without_dimshuffle(x) for x in inputs)
    if _name_of(total) != "sum" or _name_of(count) != "cast":
        return _plain(v, owner, inputs)
    (x,) = total.owner.inputs
    axes = total.owner.op.attrs["axes"]
    if _sizes_of(count.owner.inputs[0], x) != axes:
        return _plain(v, owner, inputs)
    kind, scalar = count.type, count.owner.op.attrs["dtype"]
    shape = View((owner, "shape"), "Shape", [x], type="TensorType(int64, vector)")
    cast = View(
        (owner, "cast"),
        f"Elemwise{{Cast{{{scalar}}}}}",
        [shape],
        type=f"TensorType({scalar}, vector)",
        pretty=("call", scalar),
    )
    node: Any = inputs[0]
    for axis in axes:
        number = _constant((owner, "axis", axis), axis, "Constant")
        size = View(
            (owner, "size", axis),
            "Subtensor{int64}",
            [cast, number],
            type=kind,
            pretty=("subtensor", [1, 1, 0, 0]),
        )
        last = axis == axes[-1]
        node = View(
            owner if last else (owner, axis),
            "Elemwise{true_div,no_inplace}",
            [node, _stretched((owner, "x", axis), size, scalar, v.ndim)],
            name=(v.name or "mean") if last else "",
            type=v.type,
            pretty=("infix", "/"),
        )
    return node


def _stretched(key: Hashable, value: Any, dtype: str, ndim: int) -> Any:
    """A scalar with axes that stretch."""
    if ndim == 0:
        return value
    return View(
        key,
        f"InplaceDimShuffle{{{','.join('x' * ndim)}}}",
        [value],
        type=_core.TensorType(dtype, (True,) * ndim),
        pretty=("dimshuffle", [-1] * ndim),
    )


def _name_of(x: _core.Variable) -> str | None:
    return None if x.owner is None else x.owner.op.name


def _without_dimshuffle(x: _core.Variable) -> _core.Variable:
    return x.owner.inputs[0] if _name_of(x) == "dimshuffle" else x


def _sizes_of(product: _core.Variable, x: _core.Variable) -> list[int]:
    """The axes of x whose sizes are multiplied; [] if it is no such product."""
    axes: list[int] = []
    stack = [product]
    while stack:
        factor = stack.pop()
        name = _name_of(factor)
        if name == "mul":
            stack += reversed(factor.owner.inputs)
        elif name == "slice" and _name_of(factor.owner.inputs[0]) == "shape":
            shape, axis = factor.owner.inputs[0], factor.owner.inputs[-1]
            if shape.owner.inputs[0] is not x or not isinstance(axis, _core.TensorConstant):
                return []
            axes.append(int(axis.data))
        elif not isinstance(factor, _core.TensorConstant) or factor.data != 1:
            return []
    return axes


_RULES: dict[str, _Rule] = {
    "arange": _arange,
    "argmax": _maximum_over,
    "argmin": _maximum_over,
    "broadcast_to": _broadcast_to,
    "concatenate": _concatenate,
    "dimshuffle": _dimshuffle,
    "div": _mean,
    "eye": _eye,
    "gather": _gather,
    "max": _maximum_over,
    "min": _maximum_over,
    "scatter_add": _gather,
    "scatter_set": _gather,
    "slice": _slice,
    "slice_inc": _slice,
    "slice_set": _slice,
}

# How pp writes an op: between its inputs, before its one input, or around it.
_INFIX = {
    "add": "+",
    "div": "/",
    "dot": "\\dot",
    "floor_div": "//",
    "mul": "*",
    "pow": "**",
    "sub": "-",
}


def _pretty(op: _core.Op) -> tuple[str, Any]:
    name = op.name
    if name in _INFIX:
        return ("infix", _INFIX[name])
    if name == "neg":
        return ("prefix", "-")
    if name == "abs":
        return ("around", "|")
    if name == "cast":
        return ("call", op.attrs["dtype"])
    if name == "make_vector":
        return ("list", None)
    if op.elementwise and name not in _NAMES:
        return ("call", _SCALAR_NAMES.get(name, name))
    return ("", None)


def view(v: Any) -> View:
    """The node of a variable; a view is its own."""
    if isinstance(v, View):
        return v
    owner = v.owner
    if owner is None:
        return _leaf(v)
    op, inputs = owner.op, owner.inputs
    rule = _RULES.get(op.name)
    if rule is not None:
        found = rule(v, owner, inputs)
        return found if found.name or not v.name else found._replace(name=v.name)
    return _plain(v, owner, inputs)


def _plain(v: _core.Variable, owner: Any, inputs: Sequence[Any]) -> View:
    """A node that is Theano's as it is."""
    op = owner.op
    index = v.index if len(owner.outputs) > 1 else None
    return View(owner, op_text(op, inputs), inputs, index, v.name or "", v.type, False, _pretty(op))


def variable_text(v: _core.Variable) -> str:
    """str(v): the name, or the op and the number of the output."""
    if v.owner is None:
        return _leaf(v).text
    node = view(v)
    return node.name or f"{node.op}.{node.index or 0}"


def apply_text(node: _core.Apply) -> str:
    """str(v.owner): the op with what it is applied to."""
    shown = view(node.outputs[0])
    return f"{shown.op}({', '.join(_short(x) for x in shown.inputs)})"


def _short(x: Any) -> str:
    if not isinstance(x, View):
        return variable_text(x)
    return x.text if x.leaf else x.name or f"{x.op}.{x.index or 0}"


def _attach() -> None:
    variables, applies, ops = _core.Variable, _core.Apply, _core.Op
    variables.__str__ = variables.__repr__ = variable_text
    applies.__str__ = applies.__repr__ = apply_text
    ops.__str__ = ops.__repr__ = op_text


_attach()
