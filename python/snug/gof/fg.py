"""A graph between inputs and outputs, to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from snug import _core
from snug._errors import MissingInputError, error
from snug.gof import graph

__all__ = ["FunctionGraph", "MissingInputError"]


class FunctionGraph:
    """The graph between inputs and outputs; with `clone` a copy of it. Shared variables that it
    needs are inputs, too, behind those that are given."""

    def __init__(
        self,
        inputs: Iterable[_core.Variable],
        outputs: Iterable[_core.Variable],
        features: Iterable[Any] | None = None,
        clone: bool = True,
        update_mapping: Mapping[int, int] | None = None,
    ):
        if features:
            raise error(
                NotImplementedError,
                "FunctionGraph: features are hooks of Theano's optimizer; rewrites are tables of "
                "the compiler here",
            )
        self.inputs, self.outputs = list(inputs), list(outputs)
        if clone:
            self.inputs, self.outputs = graph.clone(
                self.inputs, self.outputs, copy_inputs=True, copy_orphans=False
            )
        self.update_mapping = dict(update_mapping or {})
        self._nodes = _core.ancestors([*self.inputs, *self.outputs], self.inputs)
        given = set(self.inputs)
        for v in self._nodes:
            if v.owner is not None or v in given or isinstance(v, _core.TensorConstant):
                continue
            if not isinstance(v, _core.SharedVariable):
                raise error(
                    MissingInputError, f"FunctionGraph: {v} is needed and is no input", "add it"
                )
            self.inputs.append(v)

    @property
    def variables(self) -> set[_core.Variable]:
        """All variables."""
        return set(self._nodes)

    @property
    def apply_nodes(self) -> set[_core.Apply]:
        """All applications."""
        return set(self.toposort())

    def toposort(self) -> list[_core.Apply]:
        """Every application, operands first."""
        given = set(self.inputs)
        made = (v.owner for v in self._nodes if v.owner is not None and v not in given)
        return list(dict.fromkeys(made))

    def clients(self, variable: _core.Variable) -> list[tuple[Any, int]]:
        """Who uses a variable: (application, which input), and ("output", which) at the end."""
        found: list[tuple[Any, int]] = [
            (node, k)
            for node in self.toposort()
            for k, x in enumerate(node.inputs)
            if x is variable
        ]
        return found + [("output", k) for k, v in enumerate(self.outputs) if v is variable]

    def clone(self) -> FunctionGraph:
        """A copy."""
        return FunctionGraph(self.inputs, self.outputs, update_mapping=self.update_mapping)

    def __contains__(self, item: Any) -> bool:
        return item in self.variables or item in self.apply_nodes

    def __repr__(self) -> str:
        return f"FunctionGraph({', '.join(str(v) for v in self.outputs)})"
