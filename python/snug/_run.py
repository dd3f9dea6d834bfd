"""`snug run script.py`: runs a program that was written for Theano, as it is."""

from __future__ import annotations

import builtins
import os
import re
import runpy
import sys
import types
from importlib.machinery import SourceFileLoader
from typing import Any

_PYTHON_2 = re.compile(
    r"Missing parentheses in call to 'print'"
    r"|multiple exception types must be parenthesized"
    r"|leading zeros in decimal integer literals"
    r"|inconsistent use of tabs"
)
_PYTHON_2_LINE = re.compile(
    r"^\s*(print|exec)\s+[^\s(=]"  # print "text", exec code
    r"|^\s*print\s*>>"
    r"|^\s*raise\s+\w+\s*,"  # raise ValueError, "text"
    r"|^\s*except\s+[\w.]+\s*,\s*\w+\s*:"  # except IOError, e:
    r"|<>|`|\b(0x[\da-fA-F]+|\d+)[lL]\b|\bur['\"]"
)
_PYTHON_2_NAMES = (
    *("basestring", "execfile", "long", "raw_input", "reduce", "unichr", "unicode", "xrange"),
    *("has_key", "iteritems", "iterkeys", "itervalues"),
)
_FRAMES = ("<frozen runpy>", __file__, os.path.join(os.path.dirname(__file__), "__main__.py"))


def _source(path: str) -> bytes:
    """The text of the program; exits with what is wrong about its file."""
    problem = ""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        problem = "there is no such file"
    except IsADirectoryError:
        inner = os.path.join(path, "__main__.py")
        problem = "is a directory"
        problem += f"; run {inner}" if os.path.isfile(inner) else ""
    except OSError as failed:
        problem = (failed.strerror or str(failed)).lower()
    print(f"snug run: {path}: {problem}", file=sys.stderr)
    sys.exit(2)


def _hint_for_python_2(wrong: BaseException, trace: Any) -> str:
    """What to say of a program, or of a module that it imports, that is Python 2."""
    if isinstance(wrong, SyntaxError):
        if not _PYTHON_2.search(str(wrong.msg)) and not _PYTHON_2_LINE.search(wrong.text or ""):
            return ""
        file, line = wrong.filename, wrong.lineno
    elif isinstance(wrong, (NameError, AttributeError)) and wrong.name in _PYTHON_2_NAMES:
        while trace.tb_next is not None:
            trace = trace.tb_next
        file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
    else:
        return ""
    return (
        f"snug run: line {line} of {file} is Python 2, and this is Python 3\n"
        f"  hint  convert it: 2to3 -w {file}"
    )


def _hook_tracebacks() -> None:
    """Tracebacks begin at the program, as if Python itself had started it."""
    shown_by = sys.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, trace: Any) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename in _FRAMES:
            trace = trace.tb_next
        shown_by(kind, value.with_traceback(trace), trace)
        hint = _hint_for_python_2(value, trace)
        if hint:
            print(hint, file=sys.stderr)

    sys.excepthook = excepthook


def _prepare() -> None:
    """Puts Theano's modules and the old names in place."""
    from snug import _old_names, theano_alias

    theano_alias.install()
    _old_names.provide()


def run_module(name: str, arguments: list[str]) -> None:
    """Runs a module as `python -m name` does, for example pytest over tests written for Theano."""
    _hook_tracebacks()
    _prepare()
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def run(path: str, arguments: list[str]) -> None:
    """Runs the program as __main__ with Theano's modules and the old names in place."""
    _hook_tracebacks()
    source = _source(path)
    _prepare()
    sys.argv = [path, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    file = os.path.abspath(path)
    main = types.ModuleType("__main__")
    main.__dict__.update(
        __file__=file,
        __cached__=None,
        __loader__=SourceFileLoader("__main__", file),
        __builtins__=builtins,
        __annotations__={},
    )
    code = compile(source, file, "exec", dont_inherit=True)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)
