"""Settings as text: environment variables such as SNUG_FLAGS, and ini files."""

from __future__ import annotations

from typing import NamedTuple

from snug import _core


class Entry(NamedTuple):
    name: str  # with its section: "gpuarray.preallocate"
    value: str
    place: str  # where it was read: a variable, or file:line


def entries_of_environment() -> list[Entry]:
    """The entries of SNUGRC and SNUG_FLAGS, which are settings and have values they take."""
    return [Entry(*entry) for entry in _core._settings_of_environment()]


def entries_of_flags(variable: str) -> list[Entry]:
    """The entries of an environment variable "name=value,name=value"."""
    return [Entry(*entry) for entry in _core._settings_of_flags(variable)]


def entries_of_file(path: str) -> list[Entry]:
    """The entries of an ini file. Those before the first section and in [global] have no prefix."""
    return entries_of_files("", path)


def entries_of_files(variable: str, default: str) -> list[Entry]:
    """The entries of the files that an environment variable lists, parted by ":", or of a default
    one. Files that do not exist are skipped; of two entries the later one counts."""
    return [Entry(*entry) for entry in _core._settings_of_files(variable, default)]


_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def as_bool(value: object) -> bool:
    """The bool of True, 1 or "true"; a ValueError otherwise."""
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(value)
