"""What `_core.compile` is told about a function."""

from __future__ import annotations

from typing import Any

from snug._config import config
from snug._errors import error


def check_precision(where: str, precision: Any, activations: Any = "float32") -> None:
    """An error unless functions can have them."""
    if precision not in ("float32", "bfloat16"):
        raise error(
            ValueError,
            f"{where}: precision is {precision!r}",
            "choose 'float32' or 'bfloat16'; for float64 build the expressions in float64",
        )
    if activations not in ("float32", "bfloat16"):
        raise error(
            ValueError,
            f"{where}: activations is {activations!r}",
            "choose 'float32' or 'bfloat16'",
        )


def compile_options(**chosen: Any) -> dict[str, Any]:
    """All options, with those that are chosen."""
    options: dict[str, Any] = {
        "updates": [],
        "givens": [],
        "shapes": [],
        "name": "",
        "memory": "",
        "precision": "float32",
        "micro_batches": 0,
        "recompute": True,
        "offload": "",
        "activations": "float32",
        "plan_only": False,
        "mode": "fast",
        "guarded": (False, False, False),
        "renewed": [],
        "no_default_updates": False,
        "strict_math": False,
        "profile": False,
        "ignore_unused": False,
        "threads": 0,
        "contexts": 1,
        "share_arenas": config.share_arenas,
        "disabled_passes": [],
    }
    return {**options, **chosen}
