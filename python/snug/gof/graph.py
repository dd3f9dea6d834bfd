"""Walking over graphs of expressions, copying and comparing them.

A graph is given by variables: from `outputs` down to `inputs`, or to variables without an owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from snug import _core
from snug._attach import attach
from snug._core import Apply, Variable
from snug._core import TensorConstant as Constant
from snug._errors import error

__all__ = [
    "Apply",
    "Constant",
    "Variable",
    "ancestors",
    "clone",
    "clone_get_equiv",
    "equal_computations",
    "general_toposort",
    "inputs",
    "io_toposort",
    "is_in_ancestors",
    "is_same_graph",
    "list_of_nodes",
    "map_variables",
    "ops",
    "orphans",
    "rebuild",
    "stack_search",
    "variables",
    "variables_and_orphans",
]


class _ApplyMethods:
    @property
    def nin(self):
        """The number of inputs."""
        return len(self.inputs)

    @property
    def nout(self):
        """The number of outputs."""
        return len(self.outputs)

    def get_parents(self):
        """The inputs."""
        return list(self.inputs)

    def default_output(self):
        """The only output."""
        if self.nout != 1:
            raise error(ValueError, f"{self.op} has {self.nout} outputs", "choose one of them")
        return self.outputs[0]

    def clone_with_new_inputs(self, inputs, strict=True):
        """The same op on other inputs; with strict they keep the types of the old ones."""
        if strict:
            inputs = [_fitting(old, new) for old, new in zip(self.inputs, inputs)]
        return _core.apply_again(self, list(inputs))[0].owner


attach(Apply, _ApplyMethods)


# ---- walking


def ancestors(
    variable_list: Iterable[Variable], blockers: Iterable[Variable] | None = None
) -> list[Variable]:
    """The variables that those of the list depend on, and themselves: depth first, down the first
    input first, from the last of the list on. Does not look below blockers."""
    return _core.depth_first(list(variable_list), list(blockers or ()), False)


def inputs(
    variable_list: Iterable[Variable], blockers: Iterable[Variable] | None = None
) -> list[Variable]:
    """Those of `ancestors` that nothing computes, in the same order: inputs, constants and shared
    variables."""
    return _core.depth_first(list(variable_list), list(blockers or ()), True)


def stack_search(
    start: Any, expand: Callable[[Any], Any], mode: str = "bfs", build_inv: bool = False
) -> Any:
    """Everything that `expand` leads to from the deque `start`, which is used up: breadth first or
    depth first ("dfs"). With build_inv also {item: items it was reached from}."""
    if mode not in ("bfs", "dfs"):
        raise error(ValueError, f"stack_search: mode is {mode!r}", "choose 'bfs' or 'dfs'")
    take = start.popleft if mode == "bfs" else start.pop
    found: dict[int, Any] = {}
    inverse: dict[Any, list[Any]] = {}
    while start:
        item = take()
        if id(item) in found:
            continue
        found[id(item)] = item
        for following in list(expand(item) or ()):
            start.append(following)
            inverse.setdefault(following, []).append(item)
    order = list(found.values())
    return (order, inverse) if build_inv else order


def io_toposort(
    inputs: Iterable[Variable],
    outputs: Iterable[Variable],
    orderings: Mapping[Apply, Sequence[Apply]] | None = None,
    clients: Any = None,
) -> list[Apply]:
    """The applications between inputs and outputs, each after those it depends on. `orderings`:
    {application: applications that come before it}."""
    fixed = list(inputs)
    blocked = set(fixed)
    nodes: dict[Apply, None] = {}
    for v in _core.ancestors(list(outputs), fixed):
        if v.owner is not None and v not in blocked:
            nodes.setdefault(v.owner)
    if not orderings:
        return list(nodes)

    def before(node: Apply) -> list[Apply]:
        makers = [x.owner for x in node.inputs if x.owner is not None and x not in blocked]
        return makers + list(orderings.get(node, ()))

    return general_toposort(list(nodes), before)


def general_toposort(
    outputs: Iterable[Any],
    deps: Callable[[Any], Any],
    debug_print: bool = False,
    compute_deps_cache: Any = None,
    deps_cache: Any = None,
    clients: Any = None,
) -> list[Any]:
    """The outputs and what they need, each after what `deps` says it needs."""
    order: list[Any] = []
    state: dict[Any, int] = {}  # 1: being visited, 2: done
    stack: list[tuple[Any, bool]] = [(x, False) for x in reversed(list(outputs))]
    while stack:
        x, expanded = stack.pop()
        if expanded:
            state[x] = 2
            order.append(x)
        elif state.get(x) == 1:
            raise error(ValueError, f"general_toposort: {x} depends on itself")
        elif x not in state:
            state[x] = 1
            stack.append((x, True))
            stack.extend((y, False) for y in reversed(list(deps(x) or ())) if state.get(y) != 2)
    return order


def variables_and_orphans(
    i: Iterable[Variable], o: Iterable[Variable]
) -> tuple[list[Variable], list[Variable]]:
    """The variables between i and o, and those of them that nothing computes and are not in i."""
    given = list(i)
    found = _core.depth_first(list(o), given, False)
    known = set(given)
    return found, [v for v in found if v.owner is None and v not in known]


def variables(i: Iterable[Variable], o: Iterable[Variable]) -> list[Variable]:
    """The variables between i and o, both included."""
    return variables_and_orphans(i, o)[0]


def orphans(i: Iterable[Variable], o: Iterable[Variable]) -> list[Variable]:
    """The variables that o needs, nothing computes, and are not in i."""
    return variables_and_orphans(i, o)[1]


def ops(i: Iterable[Variable], o: Iterable[Variable]) -> set[Apply]:
    """The applications between i and o."""
    return set(io_toposort(i, o))


def list_of_nodes(inputs: Iterable[Variable], outputs: Iterable[Variable]) -> list[Apply]:
    """The applications between inputs and outputs, outputs first."""
    return io_toposort(inputs, outputs)[::-1]


def is_in_ancestors(l_node: Apply, f_node: Apply) -> bool:
    """Whether l_node depends on f_node, or is it."""
    return any(v.owner is f_node for v in ancestors(l_node.outputs))


# ---- copying


def _pairs(what: str, replace: Any) -> list[tuple[Variable, Any]]:
    if replace is None:
        return []
    if isinstance(replace, Mapping):
        return list(replace.items())
    if isinstance(replace, (list, tuple)):
        return [(old, new) for old, new in replace]
    raise error(TypeError, f"{what}: replace is {replace!r}", "give {old: new} or pairs")


def _fitting(old: Variable, new: Any) -> Variable:
    """`new` with the type of `old`; a TypeError if that takes more than forgetting that an axis
    stretches."""
    from snug.tensor import patternbroadcast

    new = _core.as_tensor(new, "clone")
    stretches = all(n or not o for n, o in zip(new.broadcastable, old.broadcastable))
    if new.dtype != old.dtype or new.ndim != old.ndim or not stretches:
        raise error(
            TypeError,
            f"clone: {old} is {old.type} and its replacement is {new.type}",
            "cast or reshape the replacement, or pass strict=False",
        )
    same = new.broadcastable == old.broadcastable
    return new if same else patternbroadcast(new, old.broadcastable)


def rebuild(
    output: Any, replace: Any = None, strict: bool = True, share_inputs: bool = True
) -> Any:
    """See `snug.clone`."""
    pairs = _pairs("clone", replace)
    if strict:
        pairs = [(old, _fitting(old, new)) for old, new in pairs]
    several = isinstance(output, (list, tuple))
    roots = list(output) if several else [output]
    result = _core.copy_graph(roots, pairs, not share_inputs)
    return result if several else result[0]


def clone(
    i: Sequence[Variable],
    o: Sequence[Variable],
    copy_inputs: bool = True,
    copy_orphans: bool | None = None,
) -> tuple[list[Variable], list[Variable]]:
    """Copies of the inputs and outputs of a graph. Inputs, and the other variables that nothing
    computes, stay what they are unless copied (orphans by default as inputs are)."""
    orphans_too = copy_inputs if copy_orphans is None else copy_orphans
    equiv = clone_get_equiv(i, o, copy_inputs, orphans_too)
    return [equiv[x] for x in i], [equiv[x] for x in o]


def clone_get_equiv(
    inputs: Iterable[Variable],
    outputs: Iterable[Variable],
    copy_inputs: bool = True,
    copy_orphans: bool = True,
    memo: dict[Any, Any] | None = None,
) -> dict[Any, Any]:
    """A dict from the variables and applications of a graph to their copies. What `memo` has is
    taken from there, and what is copied is added."""
    memo = {} if memo is None else memo
    given = list(inputs)
    for x in given:
        memo.setdefault(x, _core.copy_leaf(x) if copy_inputs else x)
    for v in _core.ancestors(list(outputs), given):
        if v in memo:
            continue
        node = v.owner
        if node is None:
            memo[v] = _core.copy_leaf(v) if copy_orphans else v
            continue
        copies = _core.apply_again(node, [memo[x] for x in node.inputs])
        memo[node] = copies[0].owner
        for old, new in zip(node.outputs, copies):
            memo.setdefault(old, new)
            if old.name is not None:
                new.name = old.name
    return memo


def map_variables(
    replacer: Callable[[Variable], Any],
    graphs: Iterable[Variable],
    additional_inputs: Iterable[Variable] = (),
) -> list[Variable]:
    """The graphs with every variable v replaced by replacer(v). What a replacement is made of is
    replaced as well, the replacement itself is not, nor what is inside the bodies of loops."""
    roots = list(graphs)
    _all = _core.ancestors(roots)  # objects that are kept are not made again
    done: dict[Variable, Variable] = {}
    chosen: dict[Variable, Variable] = {}  # what stands for a variable, before its own parts
    replacements: set[Variable] = set()
    stack = [(v, False) for v in reversed(roots)]
    while stack:
        v, expanded = stack.pop()
        if v in done:
            continue
        if not expanded:
            if v in chosen:  # it is part of its own replacement: there it stays
                continue
            new = v if v in replacements else _core.as_tensor(replacer(v), "map_variables")
            if new is not v:
                replacements.add(new)
            chosen[v] = new
            stack.append((v, True))
            if new.owner is not None:
                stack.extend((x, False) for x in reversed(new.owner.inputs) if x not in done)
            continue
        new = chosen[v]
        if new.owner is not None:
            parts = [done.get(x, x) for x in new.owner.inputs]
            if any(a is not b for a, b in zip(parts, new.owner.inputs)):
                name, index = new.name, new.index
                new = _core.apply_again(new.owner, parts)[index]
                if name is not None:
                    new.name = name
        done[v] = new
    return [done[v] for v in roots]


# ---- comparing


def _same_leaf(a: Variable, b: Variable) -> bool:
    if a is b:
        return True
    if not isinstance(a, Constant) or not isinstance(b, Constant):
        return False
    return a.type == b.type and np.array_equal(a.data, b.data, equal_nan=a.data.dtype.kind == "f")


def _same_op(a: Apply, b: Apply) -> bool:
    if a.op == b.op:
        return True
    x, y = a.op.attrs, b.op.attrs
    if a.op.name != b.op.name or "body" not in x:
        return False
    body, other = x.pop("body"), y.pop("body")
    if x != y or len(body[0]) != len(other[0]) or len(body[1]) != len(other[1]):
        return False
    return equal_computations(body[1], other[1], body[0], other[0])


def equal_computations(
    xs: Sequence[Variable],
    ys: Sequence[Variable],
    in_xs: Sequence[Variable] | None = None,
    in_ys: Sequence[Variable] | None = None,
) -> bool:
    """Whether each of xs does the same as its partner of ys, if in_xs stand for in_ys: the same
    ops in the same order on the same variables or equal constants."""
    if len(xs) != len(ys):
        raise error(ValueError, f"equal_computations: {len(xs)} variables and {len(ys)}")
    if len(in_xs or ()) != len(in_ys or ()):
        raise error(ValueError, "equal_computations: in_xs and in_ys differ in length")
    _all = _core.ancestors([*xs, *ys])  # objects that are kept are not made again
    partner = dict(zip(in_xs or (), in_ys or ()))
    taken = set(partner.values())
    seen = set()
    stack = list(zip(xs, ys))
    while stack:
        x, y = stack.pop()
        if (x, y) in seen:
            continue
        seen.add((x, y))
        if x in partner or y in taken:
            if partner.get(x) is not y:
                return False
            continue
        a, b = x.owner, y.owner
        if a is None or b is None:
            if a is not b or not _same_leaf(x, y):
                return False
            continue
        if x.index != y.index or len(a.inputs) != len(b.inputs) or not _same_op(a, b):
            return False
        stack.extend(zip(a.inputs, b.inputs))
    return True


def is_same_graph(var1: Variable, var2: Variable, givens: Any = None, debug: bool = False) -> bool:
    """Whether two variables do the same computation, after replacing variables by `givens`
    ({old: new} or pairs) in both."""
    pairs = _pairs("is_same_graph", givens)
    if pairs:
        var1, var2 = _core.copy_graph([var1, var2], pairs, False)
    return equal_computations([var1], [var2])
