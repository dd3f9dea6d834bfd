"""`theano.misc.pkl_utils`: objects in a zip file, with their arrays as .npy files beside them."""

from __future__ import annotations

import io
import pickle
import zipfile
from typing import Any

import numpy as np

StripPickler = pickle.Pickler


class CompatUnpickler(pickle.Unpickler):
    """Reads pickles of Python 2, too."""

    def __init__(self, file: Any, **kwargs: Any):
        super().__init__(file, **{"encoding": "latin1", **kwargs})


def dump(obj: Any, file_handler: Any, protocol: int = 2) -> None:
    """Writes an object to a file opened for writing bytes."""
    with zipfile.ZipFile(file_handler, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
        names: dict[int, str] = {}
        arrays: list[np.ndarray] = []  # alive until the end: their ids are keys

        class Pickler(pickle.Pickler):
            def persistent_id(self, value: Any) -> str | None:
                if type(value) is not np.ndarray or value.dtype.hasobject:
                    return None
                if id(value) not in names:
                    names[id(value)] = f"array_{len(names)}"
                    arrays.append(value)
                    data = io.BytesIO()
                    np.lib.format.write_array(data, value, allow_pickle=False)
                    archive.writestr(names[id(value)], data.getvalue())
                return names[id(value)]

        text = io.BytesIO()
        Pickler(text, protocol).dump(obj)
        archive.writestr("pkl", text.getvalue())


def load(f: Any) -> Any:
    """The object that `dump` wrote. As with every pickle: read only files that you trust."""
    with zipfile.ZipFile(f) as archive:

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, name: str) -> np.ndarray:
                with archive.open(name) as data:
                    return np.lib.format.read_array(data, allow_pickle=False)

        with archive.open("pkl") as text:
            return Unpickler(io.BytesIO(text.read())).load()
