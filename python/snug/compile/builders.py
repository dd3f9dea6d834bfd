"""A graph that is applied as one op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from snug import _core
from snug._errors import error
from snug.gof import graph

__all__ = ["OpFromGraph"]


class OpFromGraph:
    """`OpFromGraph(inputs, outputs)(*arguments)`: the outputs with arguments for the inputs. The
    graph is written out, so it is differentiated and rewritten like any other."""

    def __init__(
        self,
        inputs: Sequence[_core.Variable],
        outputs: Sequence[_core.Variable],
        inline: bool = False,
        lop_overrides: Any = "default",
        grad_overrides: Any = "default",
        rop_overrides: Any = "default",
        name: str | None = None,
        **kwargs: Any,
    ):
        for given, what in (
            (lop_overrides, "lop_overrides"),
            (grad_overrides, "grad_overrides"),
            (rop_overrides, "rop_overrides"),
        ):
            if given not in (None, "default"):
                raise error(NotImplementedError, f"OpFromGraph: {what} is not supported")
        if kwargs:
            raise error(TypeError, f"OpFromGraph: there is no option {next(iter(kwargs))}")
        missing = [
            v
            for v in graph.inputs(list(outputs), list(inputs))
            if not isinstance(v, (_core.TensorConstant, _core.SharedVariable))
            and v not in set(inputs)
        ]
        if missing:
            raise error(ValueError, f"OpFromGraph: {missing[0]} is needed and is no input")
        self.inputs, self.outputs, self.name = list(inputs), list(outputs), name

    def __call__(self, *inputs: Any, return_list: bool = False) -> Any:
        if len(inputs) != len(self.inputs):
            raise error(
                TypeError,
                f"OpFromGraph: {len(inputs)} arguments for {len(self.inputs)} inputs",
            )
        pairs = [
            (old, new if isinstance(new, _core.Variable) else old.type.filter(new))
            for old, new in zip(self.inputs, inputs)
        ]
        outputs = graph.rebuild(self.outputs, pairs)
        return outputs[0] if len(outputs) == 1 and not return_list else outputs

    def __repr__(self) -> str:
        return self.name or "OpFromGraph"
