"""Data for training: sources of rows in files of any size, and batches of them, made ahead by
threads within a bound of memory.

    images = snug.data.idx("train-images-idx3-ubyte.gz")
    labels = snug.data.idx("train-labels-idx1-ubyte.gz")
    loader = snug.data.Loader(
        snug.data.zip(images, labels), batch=128, transforms=[snug.data.to("float32", 1 / 255)]
    )
    for epoch in range(10):
        for x, y in loader:
            train(x, y)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from snug import _core
from snug._config import config
from snug._core import Field, LoaderMemory, Source, Transform
from snug._core import data_crop as crop
from snug._core import data_flip as flip
from snug._core import data_jitter as jitter
from snug._core import data_normalise as normalise
from snug._core import data_one_hot as one_hot
from snug._core import data_reshape as reshape
from snug._core import data_to as to
from snug._errors import error

Path = str | os.PathLike[str]


def arrays(*values: Any, **named: Any) -> Source:
    """Arrays with one row per element of their first axis, without a copy. The fields have the
    names of the arguments, or "0", "1" and so on."""
    if values and named:
        raise error(TypeError, "arrays: either all arrays have names, or none")
    return _core.data_arrays(list(values or named.values()), list(named))


def npy(path: Path) -> Source:
    """The rows of the array in a .npy file, read piece by piece."""
    return _core.data_npy(path)


def npz(path: Path, *names: str) -> Source:
    """Arrays of a .npz file with equally many rows: all, or those of these names."""
    return _core.data_npz(path, list(names))


def hdf5(path: Path, *names: str, start: int = 0, end: int | None = None) -> Source:
    """Datasets of an HDF5 file with equally many rows: all at its top, or those of these names.
    They are read chunk by chunk, rows `start` to `end` alone."""
    source = _core.data_hdf5(path, list(names))
    return source if start == 0 and end is None else source[start:end]


def idx(path: Path) -> Source:
    """The rows of a file of the MNIST family, gzipped or not."""
    return _core.data_idx(path)


def images(
    folder: Path,
    size: int | tuple[int, int],
    grey: bool = False,
    stretch: bool = False,
    without: Iterable[Path] = (),
) -> Source:
    """JPEG and PNG images of a folder as "image", uint8 of shape (channels, height, width). Folders
    in it are classes, in the order of their names, counted by "label".

    size: height and width. Images are resized so that they cover it, and what hangs over is cut
        off on both sides; with `stretch`, their proportions change instead.
    grey: one channel instead of three.
    without: paths of files that are left out, as those that `broken_images` gives.
    """
    height, width = (size, size) if isinstance(size, int) else size
    return _core.data_images(folder, height, width, grey, stretch, list(without))


def broken_images(folder: Path) -> list[tuple[str, str]]:
    """Path and fault of the images of a folder that cannot be decoded. All of them are read."""
    return _core.data_broken_images(folder)


def csv(
    path: Path,
    columns: Sequence[str | int] = (),
    label: str | int | None = None,
    header: bool = True,
    separator: str = ",",
) -> Source:
    """A table of numbers as "data", float32, an empty cell being nan.

    columns: names, or numbers if there is no header; default: all but the label.
    label: the column that becomes "label", int64: integers, or texts that become classes.
    """
    name = "" if label is None else str(label)
    return _core.data_csv(path, header, [str(c) for c in columns], name, separator)


def concat(*sources: Source) -> Source:
    """All rows of one source, then all rows of the next."""
    return _core.data_concat(list(sources))


def zip(*sources: Source) -> Source:
    """The fields of all sources, row by row. A name that is there already gets a number."""
    return _core.data_zip(list(sources))


class Loader:
    """Batches of a source. Iterating over it gives the batches of one epoch, each a tuple with an
    array per field; the next epoch has another order.

    transforms: steps such as `flip()`, done by threads, and after them any callables that take and
        return the arrays of a batch.
    memory: the bound for all that the loader holds.
    threads: how many make batches; None: half of the cores.
    floats: fields of other floats arrive as this dtype; None: as config.floatX; "keep": as is.

    What comes depends on the seed and the sizes (and, for files that are read in blocks, on the
    memory), never on the number of threads. `state()` and `seek(state)` make a later run go on with
    the very batch that would have followed.
    """

    def __init__(
        self,
        source: Source,
        batch: int = 32,
        shuffle: bool = True,
        seed: int = 0,
        transforms: Sequence[Transform | Callable[..., Any]] = (),
        memory: str | int = "64MiB",
        threads: int | None = None,
        drop_last: bool = False,
        floats: Any = None,
    ) -> None:
        if not isinstance(source, Source):
            raise error(
                TypeError,
                f"Loader: expected a source, got {type(source).__name__}",
                "snug.data.arrays(x, y) makes one of arrays",
            )
        steps = [t for t in transforms if isinstance(t, Transform)]
        self._callables = list(transforms[len(steps) :])
        if any(isinstance(t, Transform) or not callable(t) for t in self._callables):
            raise error(
                TypeError,
                "Loader: transforms are steps of snug.data, and after them callables",
            )
        floats = None if floats == "keep" else floats or config.floatX
        self.source = source
        self.batch = batch
        self._loader = _core.Loader(
            source, batch, shuffle, seed, steps, str(memory), threads or 0, drop_last, floats
        )

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._loader)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        self._loader.begin_epoch()
        while (batch := self._loader.next()) is not None:
            for function in self._callables:
                batch = function(*batch)
            yield batch

    @property
    def fields(self) -> list[Field]:
        """Name, dtype and shape of a row of each array of a batch."""
        return self._loader.fields

    @property
    def rows(self) -> int:
        """The number of rows in an epoch."""
        return self._loader.rows

    @property
    def threads(self) -> int:
        """The number of threads that make batches."""
        return self._loader.threads

    def memory(self) -> LoaderMemory:
        """Bytes that the loader holds, and its limit."""
        return self._loader.memory()

    def state(self) -> dict[str, int]:
        """Where it stands: what `seek` takes, as plain numbers."""
        return self._loader.state()

    def seek(self, state: Mapping[str, int]) -> None:
        """Goes to where another loader of the same source and sizes stood."""
        self._loader.seek(dict(state))


__all__ = [
    "Field",
    "Loader",
    "LoaderMemory",
    "Source",
    "Transform",
    "arrays",
    "broken_images",
    "concat",
    "crop",
    "csv",
    "flip",
    "hdf5",
    "idx",
    "images",
    "jitter",
    "normalise",
    "npy",
    "npz",
    "one_hot",
    "reshape",
    "to",
    "zip",
]
