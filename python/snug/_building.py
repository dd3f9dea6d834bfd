"""What happens to every op while expressions are built, if the settings ask for it: test values
(config.compute_test_value) and a warning of float64 (config.warn_float64)."""

from __future__ import annotations

from typing import Any

import numpy as np

from snug import _core
from snug._config import config
from snug._errors import error, warn
from snug._options import compile_options


def get_test_value(v: Any) -> Any:
    """The test value of a variable, or what the value of a constant or a shared variable is."""
    if not isinstance(v, _core.Variable):
        v = _core.as_tensor(v, "get_test_value")
    if isinstance(v, _core.TensorConstant):
        return v.data
    if isinstance(v, _core.SharedVariable):
        return v.get_value(borrow=True)
    tag = v.__dict__.get("_tag")
    if tag is None or not hasattr(tag, "test_value"):
        raise error(
            AttributeError, f"{v} has no test value", "give it one: x.tag.test_value = an array"
        )
    return v.type.filter(tag.test_value)


def watch() -> None:
    """Follows the settings."""
    wanted = config.compute_test_value != "off" or config.warn_float64 != "ignore"
    _core._set_apply_hook(_on_apply if wanted else None)


def _on_apply(outputs: list[Any]) -> None:
    if config.warn_float64 != "ignore":
        _look_for_float64(outputs)
    if config.compute_test_value != "off":
        _compute_test_values(outputs)


def _look_for_float64(outputs: list[Any]) -> None:
    for v in outputs:
        if v.dtype == "float64":
            text = f"{v} is float64, and config.warn_float64 is '{config.warn_float64}'"
            if config.warn_float64 != "warn":
                raise error(TypeError, text, "cast the operands to float32")
            warn(text)


def _compute_test_values(outputs: list[Any]) -> None:
    apply = outputs[0].owner
    variables, values, sizes = [], [], []
    for x in dict.fromkeys(apply.inputs):
        if isinstance(x, (_core.TensorConstant, _core.SharedVariable)):
            continue
        try:
            value = get_test_value(x)
        except AttributeError:
            _missing(x)
            return
        if x.ndim <= 1 and not x.dtype.startswith(("float", "bfloat", "complex")):
            sizes.append((x, _core.constant(value, "", None)))  # it may decide the result's type
        else:
            variables.append(x)
            values.append(value)
    options = compile_options(
        givens=sizes,
        name=str(apply.op.name),
        mode="reference",
        no_default_updates=True,
        on_unused_input="ignore",
        threads=1,
    )
    entries = [
        {"variable": x, "name": x.name, "value": None, "strict": False, "allow_downcast": None}
        for x in variables
    ]
    results = _core.compile(entries, outputs, [], options)(*values)
    for v, value in zip(outputs, results, strict=True):
        v.tag.test_value = np.asarray(value)


def _missing(x: Any) -> None:
    if config.compute_test_value == "ignore":
        return
    text = f"{x} has no test value"
    if config.compute_test_value == "warn":
        warn(text)
        return
    raise error(
        AttributeError,
        text,
        "give it one: x.tag.test_value = numpy.ones((2, 3), x.dtype), or set "
        "config.compute_test_value = 'off'",
    )
