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


def check_device(where: str, device: Any) -> None:
    """An error unless it is None or a name."""
    if device is not None and not isinstance(device, str):
        raise error(
            TypeError,
            f"{where}: device is {device!r}",
            "give a name that snug.devices() lists, as 'opencl:0'",
        )


def compile_options(**chosen: Any) -> dict[str, Any]:
    """Those that are chosen, by the names of C++'s FunctionOptions, which has the defaults; and
    what is looked up in them here."""
    always: dict[str, Any] = {
        "updates": [],
        "givens": [],
        "name": "",
        "no_default_updates": False,
        "renewed": [],
        "share_arenas": config.share_arenas,
        "device": config.device,
    }
    return {**always, **chosen}
