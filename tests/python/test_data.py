"""snug.data: files that others wrote, batches, and what is damaged."""

import gzip
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import zipfile

import h5py
import numpy as np
import pytest
from PIL import Image

import snug
from snug import data

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DTYPES = ["bool", *INTEGERS, "float16", "float32", "float64"]


def random_array(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "fc":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


def epoch_of(loader):
    """The batches of an epoch, copied."""
    return [tuple(array.copy() for array in batch) for batch in loader]


def assert_same(batches, others):
    assert len(batches) == len(others)
    for a, b in zip(batches, others):
        for x, y in zip(a, b, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)


def write_idx(path, array):
    code = {"uint8": 8, "int8": 9, "int16": 11, "int32": 12, "float32": 13, "float64": 14}
    head = (
        bytes([0, 0, code[str(array.dtype)], array.ndim]) + np.array(array.shape, ">i4").tobytes()
    )
    content = head + array.astype(array.dtype.newbyteorder(">")).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


# ---- sources


def test_arrays_are_not_copied():
    x = np.arange(12.0).reshape(6, 2)
    source = data.arrays(x=x, y=np.arange(6))
    assert [f.name for f in source.fields] == ["x", "y"]
    assert len(source) == 6 and source.fields[0].shape == (2,)
    x[3] = 7
    np.testing.assert_array_equal(source[3][0], [7, 7])
    np.testing.assert_array_equal(source[-6][0], x[0])


def test_arrays_with_strides():
    x = np.arange(60.0).reshape(10, 6)
    for view in (x[::2], x[::-1], x[:, ::2], x.T):
        np.testing.assert_array_equal(data.arrays(view).read(1, 4)[0], view[1:4])


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
def test_npy(tmp_path, dtype, order):
    array = random_array((7, 3, 2), dtype).astype(np.dtype(dtype).newbyteorder(order))
    np.save(tmp_path / "a.npy", array)
    source = data.npy(tmp_path / "a.npy")
    assert source.fields[0].dtype == dtype and source.fields[0].shape == (3, 2)
    np.testing.assert_array_equal(source.read(0, 7)[0], array)
    np.testing.assert_array_equal(source.read(2, 5)[0], array[2:5])


@pytest.mark.parametrize("shape", [(7, 3), (5, 3, 4), (6, 1, 2, 3), (4000, 3), (3, 2000)])
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "u1", "c16"])
def test_npy_in_fortran_order(tmp_path, shape, dtype):
    array = np.asfortranarray(random_array(shape, np.dtype(dtype).newbyteorder("=").name))
    array = array.astype(dtype, order="K")
    np.save(tmp_path / "f.npy", array)
    np.savez(tmp_path / "f.npz", a=array)
    assert b"'fortran_order': True" in (tmp_path / "f.npy").read_bytes()[:128]
    rows = shape[0]
    for source in data.npy(tmp_path / "f.npy"), data.npz(tmp_path / "f.npz"):
        for begin, end in [(0, rows), (1, rows), (rows // 2, rows // 2 + 1), (1, 2)]:
            np.testing.assert_array_equal(source.read(begin, end)[0], array[begin:end])
    np.testing.assert_array_equal(snug.io.load(tmp_path / "f.npz")["a"], array)
    if np.dtype(dtype).kind != "c":
        batches = data.Loader(source, batch=3, seed=1, floats="keep")
        seen = np.concatenate([b for (b,) in batches])
        np.testing.assert_array_equal(np.sort(seen, axis=0), np.sort(array, axis=0))


def test_compressed_fortran_order_is_refused_if_it_is_not_in_memory(tmp_path):
    array = np.zeros((2**13, 2**13 + 1), order="F", dtype="uint8")
    np.savez_compressed(tmp_path / "f.npz", a=array)
    with pytest.raises(ValueError, match=r"(?s)compressed and in Fortran order.*ascontiguousarray"):
        data.npz(tmp_path / "f.npz")


def test_npy_of_records(tmp_path):
    np.save(tmp_path / "r.npy", np.zeros(3, [("a", "f4"), ("b", "i4")]))
    with pytest.raises(ValueError, match=r"r\.npy: holds records"):
        data.npy(tmp_path / "r.npy")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    x, y = random_array((50, 4), "float64"), np.arange(50)
    save(tmp_path / "a.npz", x=x, y=y, other=np.zeros(3))
    source = data.npz(tmp_path / "a.npz", "y", "x")
    assert [f.name for f in source.fields] == ["y", "x"]
    np.testing.assert_array_equal(source.read(10, 30)[1], x[10:30])
    with pytest.raises(ValueError, match="'other' has 3 rows, 'x' has 50"):
        data.npz(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="no array 'z'; there are x, y, other"):
        data.npz(tmp_path / "a.npz", "z")


def test_sums_of_stored_members_are_checked(tmp_path):
    x = random_array((50, 40), "float64")
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(50))
    whole = (tmp_path / "a.npz").read_bytes()
    at = whole.index(x[17].tobytes()) + 3
    (tmp_path / "a.npz").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    for read in data.npz, snug.io.load:
        with pytest.raises(ValueError, match=r"a\.npz: x\.npy: the data are damaged"):
            read(tmp_path / "a.npz")
    assert len(data.npz(tmp_path / "a.npz", "y")) == 50


def test_npz_with_large_sizes(tmp_path):
    x = random_array((9, 2), "float32")
    np.save(tmp_path / "x.npy", x)
    with (
        zipfile.ZipFile(tmp_path / "a.npz", "w") as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        member.write((tmp_path / "x.npy").read_bytes())
    np.testing.assert_array_equal(data.npz(tmp_path / "a.npz").read(0, 9)[0], x)


def test_npz_that_is_inflated_in_places(tmp_path):
    """More than is kept inflated: any place is reached from a point before it."""
    rows, width = 5000, 2**11
    x = np.repeat(np.arange(rows), width).reshape(rows, width).astype("float64")
    np.savez_compressed(tmp_path / "a.npz", x=x)
    source = data.npz(tmp_path / "a.npz")
    assert source.block > 1
    for begin in (4000, 0, 17, 2500, 2501, 4999):
        np.testing.assert_array_equal(source.read(begin, begin + 1)[0], x[begin : begin + 1])


@pytest.mark.parametrize("name", ["a.idx", "a.idx.gz"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "float32", "float64"])
def test_idx(tmp_path, name, dtype):
    array = random_array((20, 3, 5), dtype)
    write_idx(tmp_path / name, array)
    source = data.idx(tmp_path / name)
    assert source.fields[0].dtype == dtype
    np.testing.assert_array_equal(source.read(5, 20)[0], array[5:])


@pytest.mark.parametrize("chunks", [None, True, (16, 3, 4), (1, 3, 8), (7, 2, 5)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_hdf5(tmp_path, dtype, chunks):
    array = random_array((40, 3, 8), dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=array, chunks=chunks, compression=chunks and "gzip")
    source = data.hdf5(tmp_path / "a.h5", "x")
    assert source.fields[0].dtype == dtype
    np.testing.assert_array_equal(source.read(3, 33)[0], array[3:33])
    part = data.hdf5(tmp_path / "a.h5", start=5, end=25)
    assert len(part) == 20
    np.testing.assert_array_equal(part.read(0, 20)[0], array[5:25])


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip"},
        {"compression": "gzip", "shuffle": True},
        {"shuffle": True},
        {"compression": "gzip", "fletcher32": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<i2", "u1"])
def test_hdf5_with_a_chunk_per_row(tmp_path, options, dtype):
    """Rows that we unpack ourselves, and those of which the library must do it."""
    shape = (9, 130, 70)
    array = random_array(shape, np.dtype(dtype).newbyteorder("=").name)
    array[3] = 0
    with h5py.File(tmp_path / "a.h5", "w") as file:
        x = file.create_dataset("x", shape, dtype, chunks=(1, *shape[1:]), fillvalue=0, **options)
        for row in range(len(array)):
            if row != 3:  # this chunk is never written
                x[row] = array[row]
    source = data.hdf5(tmp_path / "a.h5")
    np.testing.assert_array_equal(source.read(0, 9)[0], array)
    np.testing.assert_array_equal(source.read(4, 6)[0], array[4:6])
    several = [data.Loader(source, 2, seed=1, threads=n, floats="keep") for n in (1, 4)]
    one, four = ([x.copy() for (x,) in loader] for loader in several)
    assert all(np.array_equal(a, b) for a, b in zip(one, four))
    assert several[0].memory().source > 0


def test_damaged_chunks_of_hdf5(tmp_path):
    array = random_array((4, 300, 300), "uint8")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        x = file.create_dataset("x", data=array, chunks=(1, 300, 300), compression="gzip")
        chunk = x.id.get_chunk_info(2)
    with open(tmp_path / "a.h5", "r+b") as file:
        file.seek(chunk.byte_offset + chunk.size // 2)
        file.write(b"damaged")
    source = data.hdf5(tmp_path / "a.h5")
    np.testing.assert_array_equal(source.read(3, 4)[0], array[3:])
    with pytest.raises(ValueError, match=r"a\.h5: row 2 of the dataset 'x' is damaged"):
        source.read(0, 4)


@pytest.mark.parametrize("rank", range(1, 9))
def test_hdf5_of_any_rank(tmp_path, rank):
    array = random_array((9,) + (2,) * (rank - 1), "float32")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group/x"] = array
    np.testing.assert_array_equal(data.hdf5(tmp_path / "a.h5", "group/x").read(2, 9)[0], array[2:])


FILTERS = [
    {},
    {"compression": "gzip", "shuffle": True},
    {"fletcher32": True},
    {"compression": "gzip", "shuffle": True, "fletcher32": True},
]


@pytest.mark.parametrize("libver", ["earliest", "v108", "v110", "latest"])
def test_hdf5_of_all_versions(tmp_path, libver):
    """Every kind of list of chunks: B-trees, arrays with pages and without, one chunk."""
    path = tmp_path / "a.h5"
    wanted = {}
    bounds = libver if libver in ("earliest", "latest") else (libver, libver)
    with h5py.File(path, "w", libver=bounds) as file:

        def add(array, **options):
            name = f"x{len(wanted)}"
            file.create_dataset(name, data=array, **options)
            wanted[name] = array

        for filters in FILTERS:
            for maximum in (None, (None, 7), (None, None), (50, 7)):
                array = random_array((23, 7), ">i2" if filters else "<f8")
                for chunks in ((1, 7), (5, 3), (23, 7)):
                    add(array, chunks=chunks, maxshape=maximum, **filters)
        for maximum in (None, (None,)):
            add(np.arange(40_000, dtype="int32"), chunks=(7,), maxshape=maximum)
            options = {"chunks": (3,), "maxshape": maximum, "fillvalue": -5}
            sparse = file.create_dataset(f"sparse {maximum}", (40_000,), "i4", **options)
            for row in (3, 12_345, 39_999):
                sparse[row] = row
            wanted[sparse.name] = sparse[:]
        shrunk = file.create_dataset("s", data=np.ones((20, 4)), chunks=(3, 2), maxshape=(None, 4))
        shrunk.resize((11, 4))
        shrunk.resize((15, 4))
        wanted["s"] = shrunk[:]
        wanted["never"] = file.create_dataset("never", (5, 2), "f4", fillvalue=2.5)[:]
    for name, array in wanted.items():
        source = data.hdf5(path, name)
        np.testing.assert_array_equal(source.read(0, len(array))[0], array, name)
        half = len(array) // 2
        np.testing.assert_array_equal(source.read(2, half)[0], array[2:half])


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("track_order", [False, True])
@pytest.mark.parametrize("count", [3, 1000])
def test_hdf5_groups(tmp_path, libver, track_order, count):
    """Lists of names in the header, in B-trees and in heaps; links within the file."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=libver, track_order=track_order) as file:
        group = file.create_group("g/h", track_order=track_order)
        for i in range(count):
            group[f"n{i}"] = np.arange(3) + i
        group["first"] = h5py.SoftLink("n0")
        file["last"] = h5py.SoftLink(f"/g/h/n{count - 1}")
        file["circle"] = h5py.SoftLink("circle")
        file["nowhere"] = h5py.SoftLink("none")
    last = count - 1
    for name, first in [(f"/g//h/./n{last}", last), ("g/h/first", 0), ("last", last)]:
        assert data.hdf5(path, name).read(0, 3)[0].tolist() == [first, first + 1, first + 2]
    assert [f.name for f in data.hdf5(path).fields] == ["last"]
    for name in ("circle", "nowhere", "g", "g/none", "last/x", ""):
        with pytest.raises(ValueError, match=f"there is no dataset '{name}'"):
            data.hdf5(path, name)


def test_hdf5_behind_a_block_of_the_user_and_in_headers(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", userblock_size=1024) as file:
        file["type"] = np.dtype(">i4")
        file.create_dataset("x", data=np.arange(4), dtype=file["type"])
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((4, 2))
        small = h5py.h5d.create(file.id, b"small", h5py.h5t.NATIVE_INT16, space, made)
        array = np.arange(8, dtype="i2").reshape(4, 2)
        small.write(h5py.h5s.ALL, h5py.h5s.ALL, array)
    x, small = data.hdf5(path, "x", "small").read(0, 4)
    assert x.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(small, array)


def test_hdf5_labels_stay_labels(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for name, names, dtype in [
            ("kinds", {"cat": 0, "dog": 1, "bird": 2}, "u1"),
            ("two", {"cat": 0, "dog": 1}, "u1"),
            ("swapped", {"FALSE": 1, "TRUE": 0}, "i1"),
            ("wide", {"a": 0, "b": 1000}, "i2"),
        ]:
            values = np.array([*names.values()], dtype)
            file.create_dataset(name, data=values, dtype=h5py.enum_dtype(names, dtype))
        file["bools"] = np.array([False, True])
    for name, dtype, values in [
        ("kinds", "uint8", [0, 1, 2]),
        ("two", "uint8", [0, 1]),
        ("swapped", "int8", [1, 0]),
        ("wide", "int16", [0, 1000]),
        ("bools", "bool", [False, True]),
    ]:
        source = data.hdf5(path, name)
        assert source.fields[0].dtype == dtype
        assert source.read(0, len(values))[0].tolist() == values


def test_hdf5_opens_no_other_file(tmp_path):
    path, other = tmp_path / "a.h5", tmp_path / "other.h5"
    (tmp_path / "secret").write_bytes(bytes(64))
    with h5py.File(other, "w") as file:
        file["x"] = np.arange(4)
    with h5py.File(path, "w") as file:
        file["own"] = np.arange(4)
        file.create_dataset("stored", (4, 8), "u1", external=[(str(tmp_path / "secret"), 0, 32)])
        file["group/linked"] = h5py.ExternalLink(str(other), "x")
        layout = h5py.VirtualLayout((4,), "i8")
        layout[:] = h5py.VirtualSource(str(other), "x", (4,))
        file.create_virtual_dataset("virtual", layout)
    assert len(data.hdf5(path, "own")) == 4
    for name, why in [
        ("stored", "'stored' keeps its numbers in other files"),
        ("group/linked", "'linked' leads to another file"),
        ("virtual", "'virtual' is made of parts of other files"),
    ]:
        with pytest.raises(ValueError, match=why):
            data.hdf5(path, name)
    with h5py.File(path, "a") as file:
        file["linked"] = h5py.ExternalLink(str(other), "x")
    with pytest.raises(ValueError, match="'linked' leads to another file"):
        data.hdf5(path)


def test_hdf5_that_is_not_supported(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("lzf", data=np.arange(8), compression="lzf")
        file.create_dataset("offset", data=np.arange(8), scaleoffset=0)
        file["records"] = np.zeros(3, [("a", "f4"), ("b", "i4")])
        file["complex"] = np.zeros(3, "complex64")
        file["texts"] = np.array([b"a", b"b"])
        file["lists"] = np.array(["a", "b"], h5py.string_dtype())
        file.create_dataset("long", data=np.zeros(3), dtype=np.longdouble)
        file["many"] = np.zeros((1,) * 9)
    for name, why in [
        ("lzf", r"is packed by the filter lzf \(32000\)"),
        ("offset", r"is packed by the filter scaleoffset \(6\)"),
        ("records", "does not hold real numbers, but records"),
        ("complex", "does not hold real numbers"),
        ("texts", "does not hold real numbers, but texts"),
        ("lists", "does not hold real numbers, but lists or texts"),
        ("long", "holds floats of 80 bits in 16 bytes"),
        ("many", "has 9 dimensions; 1 to 8"),
    ]:
        with pytest.raises(ValueError, match=why):
            data.hdf5(path, name)


def test_bools_are_zeros_and_ones(tmp_path):
    """In a file made by hand or damaged; computing with other bytes has no defined result."""
    bad = np.array([0, 1, 7, 1], "u1").view("bool")
    np.save(tmp_path / "a.npy", bad)
    np.save(tmp_path / "f.npy", np.asfortranarray(np.stack([bad, bad])))
    np.savez(tmp_path / "a.npz", x=bad)
    np.savez_compressed(tmp_path / "c.npz", x=bad)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=bad, chunks=(2,))
    for read in [
        lambda: data.npy(tmp_path / "a.npy").read(0, 4),
        lambda: data.npy(tmp_path / "f.npy").read(0, 2),
        lambda: data.npz(tmp_path / "a.npz").read(0, 4),
        lambda: snug.io.load(tmp_path / "a.npz"),
        lambda: snug.io.load(tmp_path / "c.npz"),
        lambda: data.hdf5(tmp_path / "a.h5").read(0, 4),
    ]:
        with pytest.raises(ValueError, match="is of bool, but has the byte 7 among its values"):
            read()
    assert data.npy(tmp_path / "a.npy").read(0, 2)[0].tolist() == [False, True]


def test_names_that_are_no_utf8(tmp_path):
    """Files may have such names, classes may not: they are shown and saved."""
    odd = os.fsdecode(b"caf\xe9")
    folder = tmp_path / odd
    (folder / "cat").mkdir(parents=True)
    Image.new("RGB", (9, 9), (5, 6, 7)).save(folder / "cat" / f"{odd}.png")
    (folder / "cat" / f"{odd}2.png").write_bytes(b"no image")
    ((path, why),) = data.broken_images(folder)
    assert path == str(folder / "cat" / f"{odd}2.png") and "neither" in why
    source = data.images(folder, 4, without=[path])
    assert len(source) == 1 and source.classes == ["cat"]
    assert source.read(0, 1)[0][0, :, 0, 0].tolist() == [5, 6, 7]
    (folder / "cat").rename(folder / odd)
    with pytest.raises(ValueError, match="the name of a class is not in UTF-8"):
        data.images(folder, 4)
    (tmp_path / "a.csv").write_bytes(b"a,kind\n1,cat\n2,caf\xe9\n")
    with pytest.raises(ValueError, match="line 3 is not in UTF-8"):
        data.csv(tmp_path / "a.csv", label="kind")
    assert len(data.csv(tmp_path / "a.csv", ["a"])) == 2
    (tmp_path / "a.csv").write_bytes(b"a,caf\xe9\n1,2\n")
    with pytest.raises(ValueError, match="line 1 is not in UTF-8"):
        data.csv(tmp_path / "a.csv")


def test_an_image_of_many_scans_is_refused(tmp_path):
    """Every scan of a progressive JPEG image costs as much as all of it, in a few bytes."""
    (tmp_path / "images").mkdir()
    path = tmp_path / "images" / "a.jpg"
    Image.new("RGB", (64, 64)).save(path, progressive=True)
    content = path.read_bytes()
    end, scan = content.rfind(b"\xff\xd9"), content.rfind(b"\xff\xda")
    path.write_bytes(content[:end] + content[scan:end] * 40 + content[end:])
    assert data.images(path.parent, 8).read(0, 1)[0].shape == (1, 3, 8, 8)
    path.write_bytes(content[:end] + content[scan:end] * 200 + content[end:])
    with pytest.raises(ValueError, match=r"a\.jpg: is a JPEG image of more than 100 scans"):
        data.images(path.parent, 8).read(0, 1)


def test_hdf5_with_several_datasets(tmp_path):
    x, y = random_array((40, 6), "float32"), np.arange(40)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(8, 6))
        file["y"] = y
        file["text"] = "no numbers"
    source = data.hdf5(tmp_path / "a.h5", "x", "y")
    seen = epoch_of(data.Loader(source, batch=7))
    order = np.concatenate([y for _, y in seen])
    assert sorted(order) == list(range(40)) and list(order) != sorted(order)
    np.testing.assert_array_equal(np.concatenate([x for x, _ in seen]), x[order])
    with pytest.raises(ValueError, match="there is no dataset 'z'"):
        data.hdf5(tmp_path / "a.h5", "z")
    with pytest.raises(ValueError, match="'text' has 0 dimensions"):
        data.hdf5(tmp_path / "a.h5")


def test_csv(tmp_path):
    (tmp_path / "a.csv").write_text(
        '\ufeffa,"b, c",kind\r\n1,2.5e1,cat\r\n\r\n-3,,"dog ""x"""\r\n+5, 7 ,cat'
    )
    source = data.csv(tmp_path / "a.csv", label="kind")
    assert source.classes == ["cat", 'dog "x"']
    x, y = source.read(0, 3)
    np.testing.assert_array_equal(x, np.array([[1, 25], [-3, np.nan], [5, 7]], "float32"))
    np.testing.assert_array_equal(y, [0, 1, 0])
    assert data.csv(tmp_path / "a.csv", columns=["a"]).fields[0].shape == (1,)
    assert data.csv(tmp_path / "a.csv", columns=["b, c"]).fields[0].shape == (1,)
    with pytest.raises(ValueError, match="row 0, column 'kind': 'cat' is no number"):
        data.csv(tmp_path / "a.csv").read(0, 1)
    with pytest.raises(ValueError, match=r"no column is named 'kinds'(.|\n)*did you mean 'kind'"):
        data.csv(tmp_path / "a.csv", label="kinds")


def test_long_csv(tmp_path):
    table = random_array((3500, 4), "float32")
    labels = np.arange(3500) % 7
    lines = [",".join(map(repr, [*map(float, row), int(k)])) for row, k in zip(table, labels)]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    source = data.csv(tmp_path / "a.csv", header=False, label=4)
    assert source.classes == []
    for begin in (0, 999, 1000, 2345, 3499):
        np.testing.assert_array_equal(source.read(begin, 3500)[0], table[begin:])
        np.testing.assert_array_equal(source.read(begin, 3500)[1], labels[begin:])
    (tmp_path / "a.csv").write_text("\n".join([*lines, "1,2"]))
    with pytest.raises(ValueError, match="line 3501 has 2 cells, the first line has 5"):
        data.csv(tmp_path / "a.csv", header=False)


def smooth_image(height, width, seed=0):
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (5, 6, 3), "uint8")
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


@pytest.mark.parametrize("grey", [False, True])
@pytest.mark.parametrize("stretch", [False, True])
@pytest.mark.parametrize("size", [(20, 30), (64, 48), (100, 120)])
@pytest.mark.parametrize("kind", ["png", "jpg"])
def test_images_are_resized_as_others_do(tmp_path, kind, size, stretch, grey):
    height, width = size
    image = smooth_image(60, 90)
    image.save(tmp_path / f"a.{kind}", quality=95)
    (found,) = data.images(tmp_path, size, grey=grey, stretch=stretch)[0]
    step = min(90 / width, 60 / height)
    box = ((90 - step * width) / 2, (60 - step * height) / 2)
    box = (*box, 90 - box[0], 60 - box[1])
    opened = Image.open(tmp_path / f"a.{kind}").convert("L" if grey else "RGB")
    expected = opened.resize((width, height), Image.Resampling.BILINEAR, None if stretch else box)
    expected = np.atleast_3d(np.asarray(expected)).transpose(2, 0, 1).astype(int)
    assert found.shape == expected.shape and found.dtype == np.uint8
    difference = np.abs(found - expected)
    assert difference.max() <= (1 if kind == "png" else 6)
    assert difference.mean() < (0.5 if kind == "png" else 1.5)


def test_images_of_all_kinds(tmp_path):
    image = smooth_image(16, 16)
    image.convert("L").save(tmp_path / "grey.png")
    image.quantize(32).save(tmp_path / "palette.png")
    image.convert("RGBA").save(tmp_path / "alpha.png")
    image.convert("1").save(tmp_path / "bits.png")
    image.convert("L").save(tmp_path / "grey.jpg", quality=95)
    image.save(tmp_path / "progressive.JPEG", quality=95, progressive=True)
    image.convert("CMYK").save(tmp_path / "inks.jpg", quality=95)
    Image.fromarray(np.asarray(image.convert("L")).astype("uint16") * 257).save(tmp_path / "w.png")
    source = data.images(tmp_path, 16)
    assert len(source) == 8 and source.classes == []
    for row, name in enumerate(sorted(os.listdir(tmp_path))):
        opened = Image.open(tmp_path / name)
        if name == "w.png":
            opened = image.convert("L")
        expected = np.asarray(opened.convert("RGB")).transpose(2, 0, 1).astype(int)
        assert np.abs(source[row][0] - expected).max() <= 2, name


def test_folders_are_classes(tmp_path):
    for number, name in enumerate(["dog", "ant", "cat"]):
        (tmp_path / name).mkdir()
        for k in range(3):
            Image.new("RGB", (8, 8), (number, k, 0)).save(tmp_path / name / f"{k}.png")
    (tmp_path / "empty").mkdir()
    source = data.images(tmp_path, 8)
    assert source.classes == ["ant", "cat", "dog"]
    x, y = source.read(0, 9)
    np.testing.assert_array_equal(y, [0, 0, 0, 1, 1, 1, 2, 2, 2])
    np.testing.assert_array_equal(x[:, 0, 0, 0], [1, 1, 1, 2, 2, 2, 0, 0, 0])
    (tmp_path / "cat" / "1.png").write_bytes((tmp_path / "cat" / "1.png").read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"cat/1\.png: is a damaged PNG image"):
        list(data.Loader(source))


def test_broken_images_are_named_and_left_out(tmp_path):
    for name in ("ant", "cat"):
        (tmp_path / name).mkdir()
        for k in range(3):
            smooth_image(40, 30).save(tmp_path / name / f"{k}.jpg")
    broken = {"ant/1.jpg": "damaged JPEG", "cat/0.jpg": "is empty", "cat/x.png": "neither a JPEG"}
    (tmp_path / "ant/1.jpg").write_bytes((tmp_path / "ant/1.jpg").read_bytes()[:-100])
    (tmp_path / "cat/0.jpg").write_bytes(b"")
    (tmp_path / "cat/x.png").write_text("<html>not found</html>")
    found = data.broken_images(tmp_path)
    assert [path for path, _ in found] == [str(tmp_path / name) for name in broken]
    for (_, why), wanted in zip(found, broken.values()):
        assert wanted in why and str(tmp_path) not in why
    source = data.images(tmp_path, 8, without=[path for path, _ in found])
    np.testing.assert_array_equal(source.read(0, 4)[1], [0, 0, 1, 1])


@pytest.mark.parametrize(
    "name, options, least",
    [
        ("a.png", {}, 0),
        ("a.jpg", {}, 0),
        ("a.jpg", {"progressive": True}, 2 * 600 * 800 * 1.5),  # coefficients, colours halved
    ],
)
def test_memory_of_image_decoders_is_counted(tmp_path, name, options, least):
    smooth_image(600, 800).save(tmp_path / name, **options)
    source = data.images(tmp_path, 16)
    loader = data.Loader(source, 1, threads=1)
    assert loader.memory().source == 0
    list(loader)
    size = (tmp_path / name).stat().st_size
    assert size + least < loader.memory().source < size + least + 300_000
    assert loader.memory().total >= loader.memory().source
    half = data.Loader(source[:1], 1)
    assert half.memory().source == loader.memory().source


def test_what_is_kept_inflated_is_counted(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((100, 1000), "uint8"))
    assert 100_000 < data.Loader(data.npz(tmp_path / "a.npz")).memory().source < 101_000


def test_sources_of_sources():
    x = np.arange(20.0)
    source = data.arrays(x=x)
    assert len(source[5:-5]) == 10
    np.testing.assert_array_equal(source[5:-5].read(0, 10)[0], x[5:-5])
    np.testing.assert_array_equal(source.slice(3, 9)[2:].read(0, 4)[0], x[5:9])
    both = data.concat(source[:5], source[10:], source[2:3])
    np.testing.assert_array_equal(both.read(3, 16)[0], [*x[3:5], *x[10:20], x[2]])
    pairs = data.zip(source, data.arrays(x=-x, y=x))
    assert [f.name for f in pairs.fields] == ["x", "x_1", "y"]
    np.testing.assert_array_equal(pairs.select(["y", "x_1"])[4], [4, -4])
    parts = source.split([0.5, 0.25, 0.25])
    assert [len(part) for part in parts] == [10, 5, 5]
    np.testing.assert_array_equal(parts[1].read(0, 5)[0], x[10:15])
    parts = source.split([0.8, 0.2], seed=3)
    rows = [part.read(0, len(part))[0] for part in parts]
    assert [len(r) for r in rows] == [16, 4]
    np.testing.assert_array_equal(np.sort(np.concatenate(rows)), x)
    assert not np.array_equal(np.concatenate(rows), x)
    np.testing.assert_array_equal(source.split([0.8, 0.2], seed=3)[1].read(0, 4)[0], rows[1])
    assert not np.array_equal(source.split([0.8, 0.2], seed=4)[1].read(0, 4)[0], rows[1])
    with pytest.raises(ValueError, match="source 1 has 3 rows, source 0 has 20"):
        data.zip(source, source[:3])
    with pytest.raises(ValueError, match="the fields differ"):
        data.concat(source, data.arrays(y=x))
    with pytest.raises(IndexError, match="row 20 of a source of 20 rows"):
        source[20]
    with pytest.raises(ValueError, match="step 1"):
        source[::2]


# ---- the loader


def sources_of_rows(tmp_path, rows=101):
    """The same rows without blocks, and with them."""
    x, y = random_array((rows, 3, 6, 5), "float64"), np.arange(rows)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(64, 3, 6, 5))
        file["y"] = y
    return {
        "arrays": data.arrays(x=x, y=y),
        "hdf5": data.hdf5(tmp_path / "a.h5", "x", "y"),
        "slice": data.hdf5(tmp_path / "a.h5", "x", "y")[5:-3],
    }


STEPS = [data.crop(4, 4, padding=1), data.flip(), data.jitter(0.2, 0.3), data.normalise(0.1, 2)]


@pytest.mark.parametrize("kind", ["arrays", "hdf5", "slice"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_threads_do_not_change_what_comes(tmp_path, kind, shuffle):
    source = sources_of_rows(tmp_path)[kind]
    runs = []
    for threads in (1, 2, 4):
        loader = data.Loader(
            source, 8, shuffle, seed=3, transforms=STEPS, threads=threads, memory="1MiB"
        )
        runs.append(epoch_of(loader) + epoch_of(loader))
    assert_same(runs[0], runs[1])
    assert_same(runs[0], runs[2])
    x, y = map(np.concatenate, zip(*runs[0][: len(runs[0]) // 2]))
    first = 5 if kind == "slice" else 0
    assert sorted(y) == list(range(first, first + len(source)))
    assert (list(y) == sorted(y)) != shuffle
    assert x.dtype == np.float32 and x.shape[1:] == (3, 4, 4)
    if shuffle:
        again = np.concatenate([y for _, y in runs[0][len(runs[0]) // 2 :]])
        assert list(again) != list(y) and sorted(again) == sorted(y)


@pytest.mark.parametrize("kind", ["arrays", "hdf5", "slice"])
@pytest.mark.parametrize("drop_last", [True, False])
def test_going_on_at_every_batch(tmp_path, kind, drop_last):
    def make(seed):
        return data.Loader(
            source, 16, seed=seed, transforms=STEPS, drop_last=drop_last, memory="1MiB"
        )

    source = sources_of_rows(tmp_path)[kind]
    loader, states, batches = make(3), [], []
    for _ in range(3):
        states.append(loader.state())
        for batch in loader:
            batches.append(tuple(array.copy() for array in batch))
            states.append(loader.state())
        states.pop()  # the end of an epoch is the beginning of the next
    assert len(loader) == len(source) // 16 + (not drop_last)
    for place, state in enumerate(states):
        other = make(7)
        other.seek(state)
        epoch = place // len(loader)
        assert state["epoch"] == epoch and state["batch"] == place % len(loader)
        rest = epoch_of(other)
        if epoch < 2:
            rest += epoch_of(other)
        assert_same(rest, batches[place : (min(epoch + 1, 2) + 1) * len(loader)])


def test_a_state_of_another_order_is_refused(tmp_path):
    source = sources_of_rows(tmp_path)["arrays"]
    state = data.Loader(source, 16).state()
    with pytest.raises(ValueError, match=r"batches of 16, shuffled(.|\n)*batches of 8"):
        data.Loader(source, 8).seek(state)
    with pytest.raises(ValueError, match="batch 9 of epoch 0: an epoch has 7 batches"):
        data.Loader(source, 16).seek({**state, "batch": 9})
    with pytest.raises(ValueError, match="the state has no 'seed'"):
        data.Loader(source, 16).seek({"epoch": 1})


def test_an_epoch_that_was_left_is_not_gone_on_with():
    loader = data.Loader(data.arrays(np.arange(10)), 2)
    for _ in loader:
        break
    assert loader.state()["batch"] == 1
    assert len(epoch_of(loader)) == 5
    assert loader.state()["epoch"] == 2


def test_batches_that_are_kept_stay_as_they_are():
    x = np.arange(1000.0, dtype="float32")
    batches = list(data.Loader(data.arrays(x), 10, shuffle=False))
    np.testing.assert_array_equal(np.concatenate([b for (b,) in batches]), x)


def test_every_row_comes_first_equally_often():
    counts = np.zeros(5)
    loader = data.Loader(data.arrays(np.arange(5)), 5)
    for _ in range(2000):
        ((rows,),) = loader
        counts[rows[0]] += 1
    assert counts.min() > 320 and counts.max() < 480


def test_dtypes_on_arrival():
    x = random_array((6, 2), "float64")
    source = data.arrays(x=x, y=np.arange(6, dtype="uint8"))
    dtypes = lambda **options: [a.dtype.name for a in next(iter(data.Loader(source, **options)))]
    assert dtypes() == ["float32", "uint8"]
    assert dtypes(floats="keep") == ["float64", "uint8"]
    assert dtypes(floats="bfloat16") == ["bfloat16", "uint8"]
    with snug.config.change_flags(floatX="float64"):
        assert dtypes() == ["float64", "uint8"]
    assert dtypes(transforms=[data.to("int32").on("y")]) == ["float32", "int32"]


@pytest.mark.parametrize("source_dtype", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions_are_those_of_numpy(source_dtype, dtype):
    x = random_array((50,), source_dtype)
    if np.dtype(source_dtype).kind == "f" and np.dtype(dtype).kind == "u":
        x = np.abs(x)
    (batch,) = next(
        iter(
            data.Loader(
                data.arrays(x), 50, shuffle=False, floats="keep", transforms=[data.to(dtype)]
            )
        )
    )
    np.testing.assert_array_equal(batch, x.astype(dtype))


def test_steps():
    x = random_array((40, 3, 6, 5), "uint8")
    y = np.arange(40) % 4
    run = lambda *steps: map(
        np.concatenate,
        zip(*data.Loader(data.arrays(x=x, y=y), 7, shuffle=False, transforms=steps)),
    )
    found, _ = run(data.to("float32", 1 / 255))
    np.testing.assert_allclose(found, x.astype("float32") / 255, rtol=1e-6)
    found, _ = run(data.normalise([1, 2, 3], [4, 5, 6]))
    mean, std = (np.array(v, "float32").reshape(3, 1, 1) for v in ([1, 2, 3], [4, 5, 6]))
    np.testing.assert_allclose(found, (x - mean) / std, rtol=1e-5, atol=1e-5)
    _, found = run(data.one_hot(4).on("y"))
    np.testing.assert_array_equal(found, np.eye(4, dtype="float32")[y])
    found, _ = run(data.reshape((90,)))
    np.testing.assert_array_equal(found, x.reshape(40, 90))
    found, _ = run(data.crop(4, 3, random=False))
    np.testing.assert_array_equal(found, x[:, :, 1:5, 1:4])
    found, _ = run(data.flip(1))
    np.testing.assert_array_equal(found, x[..., ::-1])
    found, _ = run(data.flip())
    turned = [(a == b[..., ::-1]).all() for a, b in zip(found, x)]
    assert all(t or (a == b).all() for t, a, b in zip(turned, found, x)) and 8 < sum(turned) < 32
    found, _ = run(data.crop(6, 5, padding=2))
    padded = np.pad(x, [(0, 0), (0, 0), (2, 2), (2, 2)])
    for a, b in zip(found, padded):
        places = [(i, j) for i in range(5) for j in range(5)]
        assert any((a == b[:, i : i + 6, j : j + 5]).all() for i, j in places)
    found, _ = run(data.jitter(0.3, 0.5))
    assert found.dtype == np.uint8 and (found != x).any()
    found, _ = run(data.to("float32"), data.jitter(0.3))
    ratios = (found[x > 0] / x[x > 0]).reshape(-1)
    assert 0.69 < ratios.min() < 0.85 and 1.15 < ratios.max() < 1.31


def test_an_image_and_its_mask_turn_together():
    x = random_array((30, 4, 5), "float32")
    steps = [data.flip().on("image", "mask"), data.crop(3, 3).on("image", "mask")]
    source = data.arrays(image=x, mask=x > 0)
    for image, mask in data.Loader(source, transforms=steps):
        np.testing.assert_array_equal(image > 0, mask)


def test_a_callable_takes_the_batch():
    x, y = np.arange(10.0), np.arange(10)
    loader = data.Loader(
        data.arrays(x, y), 5, shuffle=False, transforms=[lambda x, y: (x * 2, y, x + y)]
    )
    assert [len(batch) for batch in loader] == [3, 3]
    with pytest.raises(TypeError, match="and after them callables"):
        data.Loader(data.arrays(x), transforms=[len, data.flip()])


@pytest.mark.parametrize(
    "step, text",
    [
        (data.flip(), r"flip: the field x: float64 \(\) has no height and width"),
        (data.normalise([1, 2], 1), "has not the 2 channels"),
        (data.one_hot(3), "one_hot: .* is no integer"),
        (data.one_hot(3).on("z"), "no field is named 'z'; there are x, y"),
        (data.reshape((2, 3)), r"has no shape \(2, 3\)"),
        (data.crop(2, 2).on("y"), "has no height and width"),
    ],
)
def test_steps_that_do_not_fit(step, text):
    with pytest.raises(ValueError, match=text):
        data.Loader(data.arrays(x=np.arange(3.0), y=np.arange(3)), transforms=[step], floats="keep")


def test_errors_of_threads_arrive():
    source = data.arrays(x=np.zeros(10), y=np.arange(10))
    loader = data.Loader(source, 2, shuffle=False, transforms=[data.one_hot(5).on("y")])
    seen = 0
    with pytest.raises(ValueError, match="the class 5 in field 'y' is not within 0 to 4"):
        for _ in loader:
            seen += 1
    assert seen == 2
    with pytest.raises(ValueError, match="the class 5"):
        loader._loader.next()


def test_a_loader_needs_what_it_needs():
    source = data.arrays(np.zeros((1000, 1000)))
    with pytest.raises(ValueError, match=r"3 batches of 100 rows take(.|\n)*give memory=\"\d+MiB"):
        data.Loader(source, 100, memory="1MB")
    with pytest.raises(ValueError, match="no amount of memory"):
        data.Loader(source, memory="much")
    with pytest.raises(ValueError, match="a batch of 0 rows"):
        data.Loader(source, 0)
    with pytest.raises(ValueError, match="drop_last leaves no batch"):
        data.Loader(source, 2000, drop_last=True)
    with pytest.raises(TypeError, match="expected a source, got ndarray"):
        data.Loader(np.zeros(3))


def test_memory_is_counted():
    loader = data.Loader(data.arrays(np.zeros((1000, 1000))), 10, memory="1MiB")
    kept = list(loader)[:5]
    memory = loader.memory()
    assert 0 < memory.total <= memory.limit == 2**20
    assert len(kept) == 5


def test_nothing_and_little():
    assert list(data.Loader(data.arrays(np.zeros((0, 3))))) == []
    ((batch,),) = data.Loader(data.arrays(np.zeros((1, 3))))
    assert batch.shape == (1, 3)
    ((batch,),) = data.Loader(data.arrays(np.zeros((4, 0))))
    assert batch.shape == (4, 0)


def test_loaders_that_are_dropped_while_they_work(tmp_path):
    for source in sources_of_rows(tmp_path).values():
        for _ in range(20):
            next(iter(data.Loader(source, 4, threads=3)))


def test_ctrl_c_while_waiting(tmp_path):
    """A large image takes a while to decode; the signal comes before it is done."""
    Image.new("L", (4000, 4000)).save(tmp_path / "a.png", compress_level=1)
    program = """
        import os, signal, sys
        from snug import data
        pictures = data.images(sys.argv[1], 8)
        loader = data.Loader(data.concat(*[pictures] * 100), 100)
        read, write = os.pipe()
        if os.fork() == 0:  # the parent is in next() when this one is done
            os.close(write)
            os.read(read, 1)
            os.kill(os.getppid(), signal.SIGINT)
            os._exit(0)
        try:
            os.write(write, b"x")
            for _ in loader:
                pass
            print("no signal")
        except KeyboardInterrupt:
            print("stopped")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "stopped\n", done.stderr


# ---- files larger than memory


READER = """
    import resource, sys
    import numpy as np
    from snug import data
    kind, path, limit = sys.argv[1:]
    source = getattr(data, kind)(path)
    status = lambda name: next(
        int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)
    )
    resource.setrlimit(resource.RLIMIT_DATA, (int(limit) << 20, int(limit) << 20))
    before = status("VmRSS:")
    rows = 0
    for (batch,) in data.Loader(source, 64, memory="64MiB"):
        assert batch.dtype == np.float32 and batch.shape[1:] == (64, 1024)
        assert (batch[:, 0, 0] == batch[:, -1, -1]).all()
        rows += len(batch)
    assert rows == len(source), rows
    print("grown by", (status("VmHWM:") - before) >> 10, "MiB")
"""


def read_with_little_memory(kind, path, limit=300):
    command = [sys.executable, "-c", textwrap.dedent(READER), kind, str(path), str(limit)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[2]) < 100, done.stdout


def write_sparse_npy(path, rows):
    np.lib.format.open_memmap(path, "w+", "float64", (rows, 64, 1024)).flush()
    assert os.stat(path).st_blocks * 512 < 2**20


def write_repeated_hdf5(path, rows):
    """Chunks of one value each take next to nothing on disk; most are not written at all."""
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", (rows, 64, 1024), "f8", chunks=(2, 64, 1024), compression=1)
        for row in range(0, rows, rows // 20):
            x[row] = row
    assert path.stat().st_size < 2**24


@pytest.mark.parametrize("gigabytes", [1.5, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["npy", "hdf5"])
def test_a_file_larger_than_the_memory(tmp_path, kind, gigabytes):
    path = tmp_path / "large"
    (write_sparse_npy if kind == "npy" else write_repeated_hdf5)(path, int(gigabytes * 2048))
    read_with_little_memory(kind, path)


# ---- damaged files


def damaged_copies(content, count, seed):
    """Bytes changed, parts cut off, sizes made huge."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        copy = bytearray(content)
        kind = number % 4
        place = int(rng.integers(len(copy)))
        if kind == 3:
            place = int(rng.integers(min(len(copy), 200)))  # headers
        if kind == 0:
            copy = copy[:place]
        elif kind == 1:
            copy[place : place + 8] = rng.choice([b"\xff" * 8, b"\x7f" * 4, b"\x00" * 8])
        else:
            for _ in range(int(rng.integers(1, 4))):
                copy[place] = int(rng.integers(256))
                place = int(rng.integers(len(copy)))
        yield bytes(copy)


FUZZER = """
    import pathlib, resource, sys
    from snug import data
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
    kind, folder = sys.argv[1:]
    open_file = {
        "npy": data.npy, "npz": data.npz, "idx": data.idx, "hdf5": data.hdf5,
        "csv": lambda p: data.csv(p, label="k"), "images": lambda p: data.images(p, 12),
    }[kind]
    good = bad = 0
    for path in sorted(pathlib.Path(folder).iterdir()):
        try:
            source = open_file(path)
            for _ in data.Loader(source, min(len(source), 4) or 1, shuffle=False, memory="8MiB"):
                pass
            good += 1
        except (ValueError, NotImplementedError, MemoryError) as e:
            bad += 1
            assert path.name in str(e) or "Loader" in str(e) or "impossible" in str(e), e
    print(good, bad)
"""


@pytest.mark.parametrize(
    "kind", ["npy", "npz", "npz_deflated", "idx", "idx_gz", "hdf5", "hdf5_gz", "csv", "png", "jpg"]
)
def test_damaged_files(tmp_path, kind):
    x = random_array((20, 3, 4), "float32")
    whole, name, reader, count = tmp_path / "whole", kind, kind.split("_")[0], 200
    if kind == "npy":
        np.save(tmp_path / "whole.npy", x)
        whole = tmp_path / "whole.npy"
    elif reader == "npz":
        whole = tmp_path / "whole.npz"
        (np.savez if kind == "npz" else np.savez_compressed)(whole, x=x, y=np.arange(20))
    elif reader == "idx":
        whole = tmp_path / ("whole.gz" if kind == "idx_gz" else "whole")
        write_idx(whole, x)
    elif reader == "hdf5":
        with h5py.File(whole, "w") as file:
            gzipped = kind == "hdf5_gz"
            file.create_dataset(
                "x",
                data=x,
                chunks=(4, 3, 4) if gzipped else None,
                compression="gzip" if gzipped else None,
            )
            file["y"] = np.arange(20)
    elif kind == "csv":
        rows = "\n".join(f'{i},{i / 3},"{i % 3}"' for i in range(20))
        whole.write_text("a,b,k\n" + rows)
    else:
        reader, whole = "images", tmp_path / f"whole.{kind}"
        smooth_image(20, 30).save(whole)
    folder = tmp_path / "damaged"
    folder.mkdir()
    for number, content in enumerate(damaged_copies(whole.read_bytes(), count, seed=1)):
        if reader == "images":
            (folder / f"{number:03}").mkdir()
            (folder / f"{number:03}" / f"{number:03}.{kind}").write_bytes(content)
        else:
            (folder / f"{number:03}.{name}").write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FUZZER), reader, str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    good, bad = map(int, done.stdout.split())
    assert good + bad == count and bad >= count // 4


# ---- docs/data.md


def test_examples_of_the_document(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", random_array((300, 28, 28), "uint8"))
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", random_array((300,), "uint8"))
    np.save("train.npy", random_array((400, 5), "float64"))
    with h5py.File("train.h5", "w") as file:
        file["x"] = random_array((1000, 3, 8), "float64")
        file["y"] = np.arange(1000)
    for name in ("cat", "dog"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        smooth_image(40, 50).save(tmp_path / "pictures" / name / "a.jpg")
    text = (pathlib.Path(__file__).parents[2] / "docs" / "data.md").read_text()
    names = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)
    printed = capsys.readouterr().out.splitlines()
    assert printed == re.findall(r"^print\(.*\)  # (.*)$", text, re.MULTILINE)


def test_loader_memory_has_a_repr():
    loader = data.Loader(data.arrays(np.zeros((64, 1000), "float32")), batch=16, memory="8MiB")
    next(iter(loader))
    text = repr(loader.memory())
    assert re.fullmatch(
        r"<.* of at most 8.00 MiB: windows .*, batches .*, work .*; source .*>", text
    ), text
