"""A choice between two expressions, of which one is computed."""

from __future__ import annotations

from typing import Any

from snug import _core
from snug._errors import error
from snug._op_class import OpClass

__all__ = ["IfElse", "ifelse"]


def ifelse(condition: Any, then_branch: Any, else_branch: Any, name: str | None = None) -> Any:
    """then_branch if the 0-d condition is not 0, else else_branch. Only one of them is computed,
    also by gradients. Each is an expression or a list of them; both have the same types, sizes may
    differ (not in the body of a loop).

    Outside of loops a condition that is more than integer arguments and arithmetic on them is
    computed ahead of the function, with all that it needs.
    """
    several = isinstance(then_branch, (list, tuple)) or isinstance(else_branch, (list, tuple))
    then = list(then_branch) if isinstance(then_branch, (list, tuple)) else [then_branch]
    other = list(else_branch) if isinstance(else_branch, (list, tuple)) else [else_branch]
    results = _core.ifelse(condition, then, other)
    if name is not None:
        for k, result in enumerate(results):
            result.name = f"{name}.{k}" if several else name
    if not several:
        return results[0]
    return tuple(results) if isinstance(then_branch, tuple) else results


class IfElse(OpClass):
    """`IfElse(n)(condition, *then, *else)`: ifelse of n expressions each. In a graph it is a loop
    of one turn per case."""

    __props__ = ("n_outs", "as_view", "name")

    def __init__(self, n_outs: int, as_view: bool = False, gpu: bool = False, name: Any = None):
        self.n_outs, self.as_view, self.name = n_outs, as_view, name

    def build(self, condition: Any, *branches: Any) -> Any:
        if len(branches) != 2 * self.n_outs:
            raise error(
                ValueError,
                f"IfElse: {len(branches)} expressions for twice {self.n_outs}",
                "give the condition, then those of one case and those of the other",
            )
        then, other = list(branches[: self.n_outs]), list(branches[self.n_outs :])
        results = _core.ifelse(condition, then, other)
        return results[0] if self.n_outs == 1 else results
