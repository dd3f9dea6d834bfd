"""A choice between two expressions, of which one is computed."""

from __future__ import annotations

from typing import Any

from snug import _core

__all__ = ["ifelse"]


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
