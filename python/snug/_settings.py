"""Settings as text: environment variables such as SNUG_FLAGS, and ini files."""

from __future__ import annotations

import io
import os
import shlex
from typing import NamedTuple


class Entry(NamedTuple):
    name: str  # with its section: "gpuarray.preallocate"
    value: str
    place: str  # where it was read: a variable, or file:line


def entries_of_flags(variable: str) -> list[Entry]:
    """The entries of an environment variable "name=value,name=value"."""
    text = os.environ.get(variable, "")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{variable}: {text!r} is not in UTF-8") from None
    splitter = shlex.shlex(text, posix=True)
    splitter.whitespace, splitter.whitespace_split, splitter.commenters = ",", True, ""
    try:
        items = list(splitter)
    except ValueError:
        raise ValueError(
            f"{variable}: a quote or an escape is not closed\n"
            f'  hint  write {variable}="name=value,name=value"'
        ) from None
    entries = []
    for item in items:
        name, equals, value = item.partition("=")
        if not item.strip():
            continue
        if not equals:
            raise ValueError(
                f"{variable}: {item.strip()!r} has no value\n"
                f'  hint  write {variable}="name=value,name=value"'
            )
        entries.append(Entry(name.strip(), value.strip(), variable))
    return entries


def entries_of_file(path: str) -> list[Entry]:
    """The entries of an ini file. Those before the first section and in [global] have no prefix."""
    entries: list[Entry] = []
    section = ""
    with open(path, "rb") as file:
        content = file.read()
    try:
        lines = io.StringIO(content.decode(), newline=None)
    except UnicodeDecodeError as bad:
        number = content.count(b"\n", 0, bad.start) + 1
        raise ValueError(
            f"{path}:{number}: is not in UTF-8\n  hint  save the file as UTF-8"
        ) from None
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        if text.startswith("[") and text.endswith("]"):
            section = text[1:-1].strip()
            continue
        at = min((i for i in (text.find("="), text.find(":")) if i >= 0), default=-1)
        if line[0].isspace() and entries and at < 0:  # goes on with the value above
            last = entries[-1]
            entries[-1] = last._replace(value=f"{last.value} {text}".strip())
            continue
        if at < 0:
            raise ValueError(
                f"{path}:{number}: cannot read {text!r}\n  hint  lines are: name = value"
            )
        name = text[:at].strip()
        prefix = "" if section in ("", "global") else section + "."
        value = text[at + 1 :].split(" #")[0].split(" ;")[0].strip()
        entries.append(Entry(prefix + name, value, f"{path}:{number}"))
    return entries


def entries_of_files(variable: str, default: str) -> list[Entry]:
    """The entries of the files that an environment variable lists, parted by ":", or of a default
    one. Files that do not exist are skipped; of two entries the later one counts."""
    paths = os.environ.get(variable, default).split(os.pathsep)
    files = [os.path.expanduser(p) for p in paths if p]
    return [entry for file in files if os.path.isfile(file) for entry in entries_of_file(file)]


_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def as_bool(value: object) -> bool:
    """The bool of True, 1 or "true"; a ValueError otherwise."""
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(value)
