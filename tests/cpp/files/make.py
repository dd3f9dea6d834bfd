"""Writes the small files that tests/cpp/damaged_files_test.cpp damages: one or more of every kind
that is read. They stand in the tree, so that the tests of C++ need no other program."""

import gzip
import pathlib

import h5py
import numpy as np
from PIL import Image

import snug

HERE = pathlib.Path(__file__).parent
RNG = np.random.default_rng(0)


def images():
    y, x = np.mgrid[0:20, 0:30]
    picture = Image.fromarray(np.stack([8 * x, 9 * y, 4 * (x + y)], 2).astype("uint8"))
    picture.save(HERE / "plain.png")
    picture.quantize(7).save(HERE / "palette.png")
    picture.save(HERE / "plain.jpg", quality=60)
    picture.save(HERE / "scans.jpg", quality=60, progressive=True)


def tables(x, y):
    np.save(HERE / "plain.npy", x)
    np.save(HERE / "columns.npy", np.asfortranarray(x.astype(">i2")))
    np.savez(HERE / "stored.npz", x=x, y=y)
    np.savez_compressed(HERE / "packed.npz", x=x, b=y > 3)
    head = bytes([0, 0, 11, 2, 0, 0, 0, 6, 0, 0, 0, 4])
    content = head + x[:, :4].astype(">i2").tobytes()
    (HERE / "plain.idx").write_bytes(content)
    (HERE / "packed.idx").write_bytes(gzip.compress(content, mtime=0))
    rows = "\n".join(f'{i},{i / 3:.3f},"{"ab"[i % 2]} ""x"""' for i in range(6))
    (HERE / "plain.csv").write_text("a,b,kind\n" + rows)
    arrays = {"x": x, "y": y, "b": y > 3, "0-d": np.array(2.5)}
    snug.io.save(HERE / "plain.safetensors", arrays, {"a": "b"})
    checkpoints = snug.io.Checkpoints(HERE / "made")
    checkpoints.save(1, {"x": x}, {"epoch": "1"})
    (made,) = (HERE / "made").iterdir()
    made.rename(HERE / "plain.checkpoint")
    (HERE / "made").rmdir()


def hdf5(x, y):
    for name, libver in [("old", "earliest"), ("middle", "v108"), ("new", "latest")]:
        bounds = libver if libver != "v108" else (libver, libver)
        with h5py.File(HERE / f"{name}.h5", "w", libver=bounds) as file:
            file["whole"] = x
            file["bools"] = y > 3
            options = {"compression": "gzip", "shuffle": True}
            file.create_dataset("packed", data=x, chunks=(2, 3), **options)
            file.create_dataset("grows", data=x, chunks=(1, 3), maxshape=(None, 5))
            file.create_dataset(
                "both", data=x, chunks=(1, 5), maxshape=(None, None), fletcher32=True
            )
            file["link"] = h5py.SoftLink("whole")
    with h5py.File(HERE / "many.h5", "w", libver="latest") as file:  # names in a heap
        for i in range(12):
            file[f"a dataset with the number {i}"] = y


if __name__ == "__main__":
    x = RNG.standard_normal((6, 5)).astype("float32")
    images()
    tables(x, np.arange(6))
    hdf5(x, np.arange(6))
