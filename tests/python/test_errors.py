"""Every text in tests/errors: NAME.py is a wrong program whose last statement fails, NAME.txt the
error as its user sees it, in every mode. No shared variable may change. SNUG_UPDATE_GOLDEN=1 writes
the texts."""

import ast
import os
import re
import traceback
from pathlib import Path

import numpy as np
import pytest

import snug

FOLDER = Path(__file__).parent.parent / "errors"
PROGRAMS = sorted(p.stem for p in FOLDER.glob("*.py"))
UPDATE = bool(os.environ.get("SNUG_UPDATE_GOLDEN"))


def run(statements, file, names):
    exec(compile(ast.Module(statements, []), file, "exec"), names)


def user_line(error, file):
    """The innermost line of the program that the traceback shows."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f.lineno for f in frames if f.filename == file][-1]


def values(names):
    return {name: x.get_value() for name, x in names.items() if isinstance(x, snug.SharedVariable)}


# The reference interpreter has no passes, and stops for Ctrl-C only when it is done.
ONLY_COMPILED = {"ctrl_c", "ctrl_c_in_a_loop", "function_required_pass", "function_unknown_pass"}


@pytest.mark.parametrize("mode", ["fast", "reference", "check"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_error_text(name, mode):
    if mode != "fast" and name in ONLY_COMPILED:
        return
    with snug.config.change_flags(mode=mode, compute_test_value="off", int_division="floatX"):
        check(name, update=UPDATE and mode == "fast")


def check(name, update):
    file = f"{name}.py"
    statements = ast.parse((FOLDER / file).read_text()).body
    names = {}
    run(statements[:-1], file, names)
    before = values(names)
    with pytest.raises((Exception, KeyboardInterrupt)) as caught:
        run(statements[-1:], file, names)
    error = caught.value
    text = f"{type(error).__name__}: {error}\n"
    text = re.sub(r"[+-]\d+ % time|same time", "TIME", text)  # as this machine is measured
    if update:
        (FOLDER / f"{name}.txt").write_text(text)
    assert text == (FOLDER / f"{name}.txt").read_text()
    assert user_line(error, file) >= statements[-1].lineno
    for variable, value in values(names).items():
        np.testing.assert_array_equal(value, before[variable], err_msg=variable)


def test_every_text_has_a_program():
    assert sorted(p.stem for p in FOLDER.glob("*.txt")) == PROGRAMS
    assert len(PROGRAMS) >= 50
