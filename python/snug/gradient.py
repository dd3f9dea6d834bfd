"""Gradients, products with Jacobians, and tests of gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from snug import _core
from snug._errors import DisconnectedInputError, NullTypeGradError, error, warn
from snug._op_class import REQUIRED, Table, make_classes

__all__ = [
    "DisconnectedInputError",
    "DisconnectedType",
    "GradientError",
    "Lop",
    "NullType",
    "NullTypeGradError",
    "Rop",
    "consider_constant",
    "disconnected_grad",
    "disconnected_type",
    "format_as",
    "grad",
    "grad_clip",
    "grad_not_implemented",
    "grad_scale",
    "grad_undefined",
    "hessian",
    "hessian_vector_product",
    "jacobian",
    "null_type",
    "numeric_grad",
    "subgraph_grad",
    "undefined_grad",
    "verify_grad",
    "zero_grad",
]


# ---- what stands for a gradient that is no tensor


class _Placeholder:
    """A variable that is no tensor: its type says why."""

    owner = None
    index = None

    def __init__(self, type: Any, name: str | None = None) -> None:
        self.type = type
        self.name = name

    def __repr__(self) -> str:
        return self.name or f"<{self.type}>"


class DisconnectedType:
    """The type of the gradient by a variable that the cost does not depend on."""

    def __call__(self, name: str | None = None) -> _Placeholder:
        return _Placeholder(self, name)

    def __str__(self) -> str:
        return "DisconnectedType"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class NullType:
    """The type of a gradient that does not exist; `why_null` says why."""

    def __init__(self, why_null: str = "(no explanation given)") -> None:
        self.why_null = why_null

    def __call__(self, name: str | None = None) -> _Placeholder:
        return _Placeholder(self, name)

    def __str__(self) -> str:
        return "NullType"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


disconnected_type = DisconnectedType()
null_type = NullType()


def _null(op: Any, x_pos: int, x: Any, what: str, comment: str) -> _Placeholder:
    why = f"the gradient by input {x_pos} ({x}) of {op} {what}"
    return NullType(f"{why}: {comment}" if comment else why)()


def grad_not_implemented(op: Any, x_pos: int, x: Any, comment: str = "") -> _Placeholder:
    """What stands for the gradient by an input that nobody has written down."""
    return _null(op, x_pos, x, "is not implemented", comment)


def grad_undefined(op: Any, x_pos: int, x: Any, comment: str = "") -> _Placeholder:
    """What stands for the gradient by an input that has none in mathematics."""
    return _null(op, x_pos, x, "is not defined", comment)


# ---- arguments


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def format_as(use_list: bool, use_tuple: bool, outputs: Any) -> Any:
    """The outputs as a list, as a tuple, or the only one of them."""
    if use_list and use_tuple:
        raise error(ValueError, "format_as: a list or a tuple, not both")
    if use_list or use_tuple:
        several = _listed(outputs)
        return several if use_list else tuple(several)
    if isinstance(outputs, (list, tuple)):
        if len(outputs) != 1:
            raise error(ValueError, f"format_as: there are {len(outputs)} outputs")
        return outputs[0]
    return outputs


def _as(like: Any, outputs: list[Any]) -> Any:
    return format_as(isinstance(like, list), isinstance(like, tuple), outputs)


def _choice(what: str, name: str, value: str, *choices: str) -> str:
    for choice in choices:
        if str(value).lower() == choice.lower():
            return choice
    names = ", ".join(map(repr, choices[:-1]))
    raise error(ValueError, f"{what}: {name} is {value!r}", f"choose {names} or {choices[-1]!r}")


def _warn_or_raise(disconnected: str, call: Callable[[bool], Any]) -> Any:
    """call(raise_): what is disconnected raises, or warns at the caller of our caller."""
    try:
        return call(disconnected != "ignore")
    except DisconnectedInputError as e:
        if disconnected == "raise":
            raise
        warn(str(e))
        return call(False)


def _constants(consider_constant: Any) -> list[Any]:
    return [] if consider_constant is None else _listed(consider_constant)


# ---- gradients


def grad(
    cost: _core.Variable | None,
    wrt: _core.Variable | Sequence[_core.Variable],
    consider_constant: Sequence[_core.Variable] | None = None,
    disconnected_inputs: str = "raise",
    add_names: bool = True,
    known_grads: Mapping[_core.Variable, Any] | None = None,
    return_disconnected: str = "zero",
    null_gradients: str = "raise",
) -> Any:
    """The gradient of a 0-d `cost` by each of `wrt`: a list for a list, a tuple for a tuple. The
    gradient of an integer cost is 0, as in Theano.

    consider_constant    expressions that gradients do not flow through
    known_grads          {expression: its gradient}; with it the cost may be None
    disconnected_inputs  what to do about a `wrt` the cost does not depend on: "raise", "warn" or
                         "ignore"
    return_disconnected  what stands for its gradient: "zero", "None" or "Disconnected"
    null_gradients       what to do about a gradient that does not exist: "raise" or "return" a
                         variable of NullType
    """
    disconnected = _choice(
        "grad", "disconnected_inputs", disconnected_inputs, "raise", "warn", "ignore"
    )
    missing = _choice(
        "grad", "return_disconnected", return_disconnected, "zero", "None", "Disconnected"
    )
    null = _choice("grad", "null_gradients", null_gradients, "raise", "return")
    if cost is None and not known_grads:
        raise error(ValueError, "grad: there is no cost", "give a cost, or known_grads")
    targets = _listed(wrt)
    if known_grads is not None and not isinstance(known_grads, (Mapping, list, tuple)):
        raise error(
            TypeError,
            f"grad: known_grads must be a dict of expressions and gradients, got {known_grads!r}",
        )
    known = list(known_grads.items()) if isinstance(known_grads, Mapping) else known_grads or []
    constants = _constants(consider_constant)
    found = _warn_or_raise(
        disconnected,
        lambda raise_: _core.gradients(
            cost, targets, constants, known, raise_, missing == "zero", null == "return"
        ),
    )
    if cost is not None and "float" not in cost.dtype:
        warn(f"grad: the cost is {cost.dtype}, so its gradients are zeros; is a float meant?")
    named = add_names and cost is not None and cost.name
    for k, (g, x) in enumerate(zip(found, targets)):
        if isinstance(g, str):
            found[k] = NullType(g)()
        elif g is None and missing == "Disconnected":
            found[k] = disconnected_type()
        elif g is not None and g.owner is not None and g.name is None and named and x.name:
            g.name = f"(d{cost.name}/d{x.name})"
    return _as(wrt, found)


def subgraph_grad(
    wrt: list[_core.Variable],
    end: list[_core.Variable],
    start: Mapping[_core.Variable, Any] | None = None,
    cost: _core.Variable | None = None,
    details: bool = False,
) -> Any:
    """Gradients through a part of a graph: from `cost`, from the known gradients `start`, or from
    both, down to the variables `end`, which they do not pass.

    Gives the gradients by `wrt` and those by `end`, two lists; with details also those from
    `start` and those of `cost` by all of `wrt` and then `end` (None where there is none).
    """
    if cost is None and start is None:
        raise error(ValueError, "subgraph_grad: there is neither a cost nor a start")
    if not isinstance(wrt, list) or not isinstance(end, list):
        raise error(TypeError, "subgraph_grad: wrt and end are lists of variables")
    params = list(dict.fromkeys([*wrt, *end]))

    def gradients(cost: Any, known: Any) -> list[Any]:
        return list(
            grad(
                cost,
                params,
                consider_constant=end,
                known_grads=known,
                disconnected_inputs="ignore",
            )
        )

    start_grads = None if start is None else gradients(None, start)
    cost_grads = None if cost is None else gradients(cost, None)
    if start_grads is None or cost_grads is None:
        total = start_grads if cost_grads is None else cost_grads
    else:
        total = [a + b for a, b in zip(start_grads, cost_grads)]
    by_param = dict(zip(params, total or []))
    results = [by_param[x] for x in wrt], [by_param[x] for x in end]
    return (*results, start_grads, cost_grads) if details else results


def _differentiated(core: Any, wrt: Any, disconnected: str, *arguments: Any) -> Any:
    """What a function of the core gives for the variables of `wrt`, in the form that wrt has."""
    what = core.__name__
    chosen = _choice(what, "disconnected_inputs", disconnected, "raise", "warn", "ignore")
    return _as(wrt, _warn_or_raise(chosen, lambda raise_: core(*arguments, raise_)))


def Lop(
    f: Any,
    wrt: Any,
    eval_points: Any,
    consider_constant: Sequence[_core.Variable] | None = None,
    disconnected_inputs: str = "raise",
) -> Any:
    """The product of `eval_points` (one per f) and the Jacobian of f by each of `wrt`."""
    arguments = _listed(f), _listed(wrt), _listed(eval_points), _constants(consider_constant)
    return _differentiated(_core.Lop, wrt, disconnected_inputs, *arguments)


def Rop(
    f: Any,
    wrt: Any,
    eval_points: Any,
    disconnected_outputs: str = "raise",
    return_disconnected: str = "zero",
) -> Any:
    """The product of the Jacobian of each f by `wrt` and `eval_points` (one per wrt)."""
    disconnected = _choice(
        "Rop", "disconnected_outputs", disconnected_outputs, "raise", "warn", "ignore"
    )
    missing = _choice(
        "Rop", "return_disconnected", return_disconnected, "zero", "None", "Disconnected"
    )
    arguments = _listed(f), _listed(wrt), _listed(eval_points)
    found = _warn_or_raise(
        disconnected, lambda raise_: _core.Rop(*arguments, raise_, missing == "zero")
    )
    if missing == "Disconnected":
        found = [disconnected_type() if g is None else g for g in found]
    return _as(f, found)


def jacobian(
    expression: _core.Variable,
    wrt: Any,
    consider_constant: Sequence[_core.Variable] | None = None,
    disconnected_inputs: str = "raise",
) -> Any:
    """The Jacobian of a vector by each of `wrt`: its axis first, then those of the variable."""
    arguments = expression, _listed(wrt), _constants(consider_constant)
    return _differentiated(_core.jacobian, wrt, disconnected_inputs, *arguments)


def hessian(
    cost: _core.Variable,
    wrt: Any,
    consider_constant: Sequence[_core.Variable] | None = None,
    disconnected_inputs: str = "raise",
) -> Any:
    """The matrix of second derivatives of a 0-d cost by each vector of `wrt`."""
    arguments = cost, _listed(wrt), _constants(consider_constant)
    return _differentiated(_core.hessian, wrt, disconnected_inputs, *arguments)


def hessian_vector_product(
    cost: _core.Variable,
    wrt: Any,
    p: Any,
    consider_constant: Sequence[_core.Variable] | None = None,
    disconnected_inputs: str = "raise",
) -> Any:
    """The product of the second derivatives by all of `wrt` and the vectors `p`, one per variable,
    without the matrix."""
    arguments = cost, _listed(wrt), _listed(p), _constants(consider_constant)
    return _differentiated(_core.hessian_vector_product, wrt, disconnected_inputs, *arguments)


# ---- identities with a gradient of their own


def zero_grad(x: Any) -> _core.Variable:
    """x; its gradient is 0."""
    return _core.stop_gradient(x)


def consider_constant(x: Any) -> _core.Variable:
    """x; its gradient is 0. The older name of zero_grad."""
    return _core.stop_gradient(x)


def disconnected_grad(x: Any) -> _core.Variable:
    """x, on which no gradient depends: differentiating by what is only reached through it is an
    error unless disconnected_inputs says otherwise."""
    return _core.disconnected_grad(x)


def undefined_grad(x: Any) -> _core.Variable:
    """x; asking for its gradient raises NullTypeGradError."""
    return _core.undefined_grad(x)


def grad_clip(x: Any, lower_bound: float, upper_bound: float) -> _core.Variable:
    """x; its gradient is clipped to [lower_bound, upper_bound]."""
    return _core.grad_clip(x, lower_bound, upper_bound)


def grad_scale(x: Any, multiplier: float) -> _core.Variable:
    """x; its gradient is multiplied."""
    return _core.grad_scale(x, multiplier)


# ---- tests of gradients


class GradientError(Exception):
    """A gradient that is not what finite differences give."""

    def __init__(
        self,
        arg: int,
        err_pos: int,
        shape: tuple[int, ...],
        val1: float,
        val2: float,
        abs_err: float,
        rel_err: float,
        abs_tol: float,
        rel_tol: float,
    ) -> None:
        super().__init__(arg, err_pos, shape, val1, val2, abs_err, rel_err, abs_tol, rel_tol)
        self.arg, self.err_pos, self.shape = arg, err_pos, shape
        self.val1, self.val2 = val1, val2
        self.abs_err, self.rel_err = abs_err, rel_err
        self.abs_tol, self.rel_tol = abs_tol, rel_tol

    def __str__(self) -> str:
        text = (
            f"the gradient by argument {self.arg} is {self.val1} at position {self.err_pos} of "
            f"shape {self.shape}, finite differences give {self.val2}: absolute error "
            f"{self.abs_err} (allowed {self.abs_tol}), relative error {self.rel_err} (allowed "
            f"{self.rel_tol})"
        )
        return text + "".join(f" {more}" for more in self.args[9:])


class numeric_grad:
    """One-sided finite differences of f, which gives a number, at `pt`: one array or a list of
    them. `gf` has one array for each."""

    type_eps: ClassVar[dict[str, float]] = {"float64": 1e-7, "float32": 3e-4, "float16": 1e-1}

    def __init__(
        self,
        f: Callable[..., Any],
        pt: Any,
        eps: float | None = None,
        out_type: Any = None,
    ) -> None:
        points = [np.array(p) for p in _listed(pt)]
        dtypes = [str(p.dtype) for p in points]
        working = min(dtypes, key=lambda name: self.type_eps[name])
        step = max(self.type_eps[name] for name in dtypes) if eps is None else eps
        complex_ = out_type is not None and str(out_type).startswith("complex")
        moved = [p.astype(working) for p in points]
        base = f(*[p.copy() for p in moved])
        gradients = [np.zeros(p.shape, out_type if complex_ else working) for p in moved]
        for p, g in zip(moved, gradients):
            for at in np.ndindex(p.shape):
                before = p[at].copy()
                p[at] += step
                g[at] = (f(*[q.copy() for q in moved]) - base) / step
                p[at] = before
        self.gf = gradients if isinstance(pt, (list, tuple)) else gradients[0]

    @staticmethod
    def abs_rel_err(a: Any, b: Any) -> tuple[Any, Any]:
        """|a - b|, and this relative to |a| + |b|."""
        absolute = np.asarray(abs(a - b))
        return absolute, np.asarray(absolute / np.maximum(abs(a) + abs(b), [1e-8]))

    def abs_rel_errors(self, g_pt: Sequence[Any]) -> list[tuple[Any, Any]]:
        """abs_rel_err of each gradient of `g_pt`."""
        if len(g_pt) != len(self.gf):
            raise ValueError("argument has wrong number of elements", len(g_pt))
        for i, (a, b) in enumerate(zip(g_pt, self.gf)):
            if a.shape != b.shape:
                raise ValueError(f"argument element {i} has wrong shape {(a.shape, b.shape)}")
        return [self.abs_rel_err(a, b) for a, b in zip(g_pt, self.gf)]

    def max_err(
        self, g_pt: Sequence[Any], abs_tol: float, rel_tol: float
    ) -> tuple[int, int, float, float]:
        """Where min(absolute error / abs_tol, relative error / rel_tol) is largest: the number of
        the argument, the place in it, and both errors there."""
        worst: tuple[float, int, int, float, float] | None = None
        for number, errors in enumerate(self.abs_rel_errors(g_pt)):
            for name, e in zip(("abs_err", "rel_err"), errors):
                if not np.all(np.isfinite(e)):
                    raise ValueError(f"{name} not finite", repr(e))
            if errors[0].size == 0:
                continue
            absolute, relative = (np.ravel(e) for e in errors)
            scaled = np.minimum(absolute / abs_tol, relative / rel_tol)
            at = int(scaled.argmax())
            if worst is None or scaled[at] > worst[0]:
                worst = (scaled[at], number, at, float(absolute[at]), float(relative[at]))
        return (0, 0, 0.0, 0.0) if worst is None else worst[1:]


_TOLERANCE = {"float16": 5e-2, "float32": 1e-2, "float64": 1e-4}


def verify_grad(
    fun: Callable[..., Any],
    pt: Sequence[Any],
    n_tests: int = 2,
    rng: Any = None,
    eps: float | None = None,
    out_type: Any = None,
    abs_tol: float | None = None,
    rel_tol: float | None = None,
    mode: Any = None,
    cast_to_output_type: bool = False,
    no_debug_ref: bool = True,
) -> None:
    """Raises GradientError if the gradient of fun at `pt` is not what finite differences give.

    fun takes variables and gives one. A random projection of it is differentiated, n_tests times;
    an element passes if it is within abs_tol or within rel_tol. rng has `rand`, as numpy.random.
    """
    from snug import tensor
    from snug._function import function
    from snug._shared import shared

    if not isinstance(pt, (list, tuple)):
        raise error(TypeError, "verify_grad: pt is a list of arrays")
    points = [np.array(p) for p in pt]
    for i, p in enumerate(points):
        if str(p.dtype) not in _TOLERANCE:
            raise error(
                TypeError,
                f"verify_grad: input {i} is {p.dtype}",
                "only floats have a gradient; fix the other arguments of fun",
            )
    if rng is None:
        raise error(TypeError, "verify_grad: rng is None", "give numpy.random.RandomState(seed)")
    loosest = max((_TOLERANCE[str(p.dtype)] for p in points), default=1e-4)
    abs_tol = loosest if abs_tol is None else abs_tol
    rel_tol = loosest if rel_tol is None else rel_tol

    def compiled(output: Any, how: Any) -> Any:
        return function(
            inputs, output, allow_input_downcast=True, on_unused_input="ignore", mode=how
        )

    inputs = [
        tensor.TensorType(str(p.dtype), tuple(n == 1 for n in p.shape))(f"input {i}")
        for i, p in enumerate(points)
    ]
    output = fun(*inputs)
    if isinstance(output, (list, tuple)):
        raise error(NotImplementedError, "verify_grad: fun gives several outputs", "test each")
    shape = compiled(output, mode)(*points).shape

    def projection() -> Any:
        plain = np.asarray(rng.rand(*shape) + 0.5)
        to_output = cast_to_output_type and output.dtype == "float32"
        return plain.astype("float32") if to_output else plain

    weights = shared(projection(), broadcastable=output.broadcastable)
    cost = tensor.sum(weights * output)
    cost_of = compiled(cost, None if no_debug_ref else mode)
    gradient_of = compiled(grad(cost, inputs, disconnected_inputs="ignore"), mode)
    for test in range(n_tests):
        if test > 0:
            weights.set_value(projection())
        try:
            numeric = numeric_grad(cost_of, points, eps, out_type)
            found = gradient_of(*points)
            arg, at, abs_err, rel_err = numeric.max_err(found, abs_tol, rel_tol)
            if abs_err > abs_tol and rel_err > rel_tol:
                raise GradientError(
                    arg,
                    at,
                    found[arg].shape,
                    found[arg].ravel()[at],
                    numeric.gf[arg].ravel()[at],
                    abs_err,
                    rel_err,
                    abs_tol,
                    rel_tol,
                )
        except Exception as e:
            e.args += ("the inputs are", points, "eps is", eps, "out_type is", out_type)
            raise


verify_grad.E_grad = GradientError  # type: ignore[attr-defined]


# ---- Theano's op classes: see `snug._op_class`

_TABLE: Table = {
    "ConsiderConstant": (
        ["stop_gradient"],
        {},
        lambda op, x: consider_constant(x),
        "x as a constant of gradients.",
    ),
    "DisconnectedGrad": (
        ["disconnected_grad"],
        {},
        lambda op, x: disconnected_grad(x),
        "x, on which nothing depends for gradients.",
    ),
    "GradClip": (
        ["grad_clip"],
        {"clip_lower_bound": REQUIRED, "clip_upper_bound": REQUIRED},
        lambda op, x: grad_clip(x, op.clip_lower_bound, op.clip_upper_bound),
        "x, whose gradient is clipped.",
    ),
    "GradScale": (
        ["grad_scale"],
        {"multiplier": REQUIRED},
        lambda op, x: grad_scale(x, op.multiplier),
        "x, whose gradient is multiplied.",
    ),
    "UndefinedGrad": (
        ["undefined_grad"],
        {},
        lambda op, x: undefined_grad(x),
        "x, whose gradient is an error.",
    ),
    "ZeroGrad": (["stop_gradient"], {}, lambda op, x: zero_grad(x), "x, whose gradient is 0."),
}
_classes = make_classes(_TABLE, __name__)
globals().update(_classes)
consider_constant_ = _classes["ConsiderConstant"]()
disconnected_grad_ = _classes["DisconnectedGrad"]()
undefined_grad_ = _classes["UndefinedGrad"]()
zero_grad_ = _classes["ZeroGrad"]()
__all__ += [
    *_classes,
    "consider_constant_",
    "disconnected_grad_",
    "undefined_grad_",
    "zero_grad_",
]
