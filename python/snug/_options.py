"""What `_core.compile` is told about a function."""

from __future__ import annotations

from typing import Any


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
        "mode": "fast",
        "guarded": (False, False, False),
        "renewed": [],
        "no_default_updates": False,
        "strict_math": False,
        "profile": False,
        "ignore_unused": False,
        "threads": 0,
        "contexts": 1,
        "disabled_passes": [],
    }
    return {**options, **chosen}
