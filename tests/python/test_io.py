"""Files of arrays against the `safetensors` package and NumPy; checkpoints."""

import contextlib
import io
import json
import os
import struct
import subprocess
import sys
import zipfile
import zlib

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

import snug

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64", "complex64"]


def arrays(dtypes=DTYPES):
    rng = np.random.default_rng(0)
    made = {t: (rng.normal(size=(3, 5)) * 50).astype(t) for t in dtypes}
    made["0-d"] = np.array(2.5)
    made["empty"] = np.zeros((0, 4), "float32")
    made["strided"] = rng.normal(size=(6, 8))[::2, ::-3]
    made["näme \N{SNOWMAN}"] = np.arange(3)
    return made


def same(found, wanted):
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        assert found[name].dtype == value.dtype and found[name].shape == value.shape, name
        assert found[name].tobytes() == value.tobytes(), name


# ---- safetensors


def test_others_read_what_we_write(tmp_path):
    path = tmp_path / "a.safetensors"
    snug.io.save(path, arrays(), {"made by": "snug", "ü": '"'})
    same(safetensors.numpy.load_file(path), arrays())
    with safetensors.safe_open(path, "numpy") as file:
        assert file.metadata() == {"made by": "snug", "ü": '"'}


def test_we_read_what_others_write(tmp_path):
    path = tmp_path / "a.safetensors"
    wanted = {name: np.ascontiguousarray(value) for name, value in arrays().items()}
    wanted["0-d"] = np.array(2.5)
    safetensors.numpy.save_file(wanted, path, {"epoch": "3"})
    found, metadata = snug.io.load_with_metadata(path)
    same(found, wanted)
    assert metadata == {"epoch": "3"}


def test_bfloat16_and_shared_variables(tmp_path):
    path = tmp_path / "a.safetensors"
    value = np.array([1.5, -3], ml_dtypes.bfloat16)
    snug.io.save(path, {"w": snug.shared(value), "n": snug.shared(np.int32(3))})
    same(snug.io.load(path), {"w": value, "n": np.array(3, "int32")})


def test_writing_to_loaded_arrays_leaves_the_file(tmp_path):
    path = tmp_path / "a.safetensors"
    snug.io.save(path, {"a": np.ones(4)})
    found = snug.io.load(path)["a"]
    found[:] = 7
    assert snug.io.load(path)["a"].tolist() == [1] * 4


def test_odd_places(tmp_path):
    """Elements whose place is not aligned, as other writers may leave them."""
    header = {
        "a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "b": {"dtype": "F64", "shape": [2], "data_offsets": [3, 19]},
    }
    path = tmp_path / "a.safetensors"
    path.write_bytes(raw(header, b"\1\2\3" + struct.pack("<2d", 1.5, 2.5)))
    assert snug.io.load(path)["b"].tolist() == [1.5, 2.5]


def raw(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype="U8", shape=(4,), begin=0, end=4):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


DAMAGED = {
    "nothing": (b"", "0 bytes"),
    "short": (b"\1\2\3", "3 bytes"),
    "length": (struct.pack("<Q", 2**63) + b"{}", "does not fit"),
    "length past the end": (struct.pack("<Q", 3) + b"{}", "does not fit"),
    "no JSON": (raw(b"{nonsense"), "no JSON"),
    "no UTF-8": (raw(b'{"\xff\xfe": 1}'), "no JSON"),
    "no object": (raw([1]), "no JSON object"),
    "deep": (raw(b'{"a":' + b"[" * 100_000), "has no dtype"),
    "deep inside": (raw(b'{"a":{"b":' + b"[" * 100_000), "nested too deep"),
    "dtype twice": (raw(b'{"a":{"dtype":"U8","dtype":"F32"'), "dtype is given twice"),
    "shape twice": (raw(b'{"a":{"shape":[1],"shape":[2]'), "shape is given twice"),
    "list of lists": (raw(b'{"a":{"shape":[[1]]}}'), "a size is no number"),
    "many sizes": (raw(b'{"a":{"shape":[' + b"1," * 100_000), "too many sizes"),
    "bool": (raw({"a": entry("BOOL")}, b"\0\1\2\1"), '"a": is of bool, but has the byte 2'),
    "number": (raw(b'{"a": 1e999999}'), "JSON"),
    "twice": (
        raw(b'{"a":%s,"a":%s}' % ((json.dumps(entry()).encode(),) * 2), b"1234"),
        "twice",
    ),
    "no entry": (raw({"a": 3}), "has no dtype"),
    "no dtype": (raw({"a": {"shape": [4], "data_offsets": [0, 4]}}, b"1234"), "has no dtype"),
    "negative size": (raw({"a": entry(shape=(-4,))}, b"1234"), "no number"),
    "float size": (raw({"a": entry(shape=(4.0,))}, b"1234"), "no number"),
    "too large": (raw({"a": entry(shape=(2**40, 2**40))}, b"1234"), "too large"),
    "nine dimensions": (raw({"a": entry(shape=(1,) * 9, end=1)}, b"1"), "9 dimensions"),
    "other size": (raw({"a": entry(shape=(5,))}, b"1234"), "4 bytes for shape"),
    "backwards": (raw({"a": entry(begin=4, end=0)}, b"1234"), "no range"),
    "past the end": (raw({"a": entry()}, b"123"), "cut or damaged"),
    "left over": (raw({"a": entry()}, b"12345"), "cut or damaged"),
    "overlap": (raw({"a": entry(), "b": entry(begin=2, end=6)}, b"123456"), "begins at byte"),
    "hole": (raw({"a": entry(begin=2, end=6)}, b"123456"), "begins at byte 2"),
    "metadata": (raw({"__metadata__": {"a": 1}}), "no text"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files(name, tmp_path):
    content, message = DAMAGED[name]
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        snug.io.load(path)
    assert "a.safetensors" in str(caught.value)


def test_random_damage_is_an_error_or_other_values(tmp_path):
    """No change of some bytes makes us read outside of the file."""
    whole = tmp_path / "whole.safetensors"
    snug.io.save(whole, arrays(["float32", "int8"]), {"a": "b"})
    content = whole.read_bytes()
    rng = np.random.default_rng(5)
    path = tmp_path / "a.safetensors"
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(rng.integers(1, 4)):
            damaged[rng.integers(min(len(damaged), 700))] = rng.integers(256)
        if rng.random() < 0.3:
            del damaged[rng.integers(len(damaged)) :]
        path.write_bytes(damaged)
        try:
            for value in snug.io.load(path).values():
                value.sum()
        except (ValueError, NotImplementedError):
            pass


def test_errors(tmp_path):
    for name in ("none.safetensors", "none.npz"):
        with pytest.raises(FileNotFoundError, match="cannot be opened: No such file"):
            snug.io.load(tmp_path / name)
    with pytest.raises(ValueError, match=r"names end in \.safetensors or \.npz"):
        snug.io.save(tmp_path / "a.txt", {})
    with pytest.raises(NotImplementedError, match="complex128"):
        snug.io.save(tmp_path / "a.safetensors", {"a": np.zeros(1, complex)})
    with pytest.raises(FileNotFoundError, match="cannot be written"):
        snug.io.save(tmp_path / "none" / "a.safetensors", {"a": np.zeros(1)})
    (tmp_path / "f8.safetensors").write_bytes(raw({"a": entry("F8_E4M3")}, b"1234"))
    with pytest.raises(NotImplementedError, match='"a" has dtype F8_E4M3'):
        snug.io.load(tmp_path / "f8.safetensors")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f8.safetensors"], "nothing left behind"


def test_many_tensors_take_linear_time(tmp_path):
    """A second or so; a minute and more if each tensor costs as much as all before it."""
    path = tmp_path / "a.safetensors"
    path.write_bytes(raw({str(i): entry(shape=(0,), end=0) for i in range(100_000)}))
    code = "import snug, sys; print(len(snug.io.load(sys.argv[1])))"
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60
    )
    assert run.stdout == "100000\n", run.stderr


def test_loaded_arrays_outlive_their_file(tmp_path):
    """A file that somebody cuts is no fault of those who have read it."""
    path = tmp_path / "a.safetensors"
    snug.io.save(path, {"a": np.arange(100_000)})
    found = snug.io.load(path)["a"]
    os.truncate(path, 0)
    assert found.sum() == np.arange(100_000).sum()


def test_a_link_in_the_place_of_a_new_file_is_not_followed(tmp_path):
    """Links under all names that a save could foresee; and the file itself a link."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a.npz", "a.safetensors"):
        for number in range(4):
            (folder / f"{name}.partial-{os.getpid()}-{number}").symlink_to(precious)
        (folder / name).symlink_to(precious)
        snug.io.save(folder / name, {"a": np.ones(3)})
        assert not (folder / name).is_symlink()
        assert snug.io.load(folder / name)["a"].tolist() == [1] * 3
    assert precious.read_text() == "precious"


def test_pipes_and_devices_are_refused_at_once(tmp_path):
    data, nn = snug.data, snug.nn
    for ending in (".npz", ".safetensors"):
        os.mkfifo(tmp_path / f"a{ending}")
    readers = [data.npy, data.npz, data.idx, data.csv, data.hdf5, snug.io.load, nn.load_model]
    for read in readers:
        with pytest.raises(ValueError, match="is a named pipe, no regular file"):
            read(tmp_path / "a.npz")
    for read in (snug.io.load, nn.load_model):
        with pytest.raises(ValueError, match="is a named pipe, no regular file"):
            read(tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match="/dev/zero: is a device"):
        data.npy("/dev/zero")
    (tmp_path / "images" / "cat").mkdir(parents=True)
    os.mkfifo(tmp_path / "images" / "cat" / "a.png")
    with pytest.raises(ValueError, match="has no images"):
        data.images(tmp_path / "images", 8)


NO_UTF8 = os.fsdecode(b"caf\xe9")


def test_names_of_files_that_are_no_utf8(tmp_path):
    folder = tmp_path / NO_UTF8
    folder.mkdir()
    for ending in (".npz", ".safetensors"):
        snug.io.save(folder / f"a{ending}", {"a": np.arange(3)})
        assert snug.io.load(folder / f"a{ending}")["a"].tolist() == [0, 1, 2]
    np.save(folder / f"{NO_UTF8}.npy", np.arange(3))
    assert len(snug.data.npy(os.fsencode(folder / f"{NO_UTF8}.npy"))) == 3
    checkpoints = snug.io.Checkpoints(folder / "run")
    checkpoints.save(1, {"a": np.arange(3)}, best=True)
    assert checkpoints.folder == str(folder / "run")
    assert snug.io.load(checkpoints.best_path)["a"].tolist() == [0, 1, 2]
    assert checkpoints.load_newest()[0].startswith(checkpoints.folder)
    with pytest.raises(FileNotFoundError, match="none"):
        snug.io.load(folder / "none.npz")
    with pytest.raises(ValueError, match="null byte"):
        snug.io.load("a\0b.npz")


def test_files_that_the_system_does_not_give(tmp_path):
    missing, folder = tmp_path / "none", tmp_path / "folder.npz"
    folder.mkdir()
    readers = [snug.data.npy, snug.data.npz, snug.data.idx, snug.data.csv, snug.data.hdf5]
    for read in [*readers, lambda path: snug.data.images(path, 8)]:
        with pytest.raises(FileNotFoundError, match=r"none: (.*)No such file"):
            read(missing)
    for read in [*readers, snug.io.load, snug.nn.load_model]:
        with pytest.raises(IsADirectoryError, match="cannot be opened: Is a directory"):
            read(folder)
    if os.geteuid() == 0:  # who may read everything
        return
    locked = tmp_path / "locked.npz"
    locked.write_bytes(b"")
    locked.chmod(0)
    for read in (snug.data.npz, snug.io.load):
        with pytest.raises(PermissionError):
            read(locked)


# ---- npz


def test_numpy_reads_our_npz(tmp_path):
    path = tmp_path / "a.npz"
    wanted = arrays([*DTYPES, "complex128"])
    snug.io.save(path, wanted)
    with np.load(path) as found:
        same(dict(found), {n: np.ascontiguousarray(v).reshape(v.shape) for n, v in wanted.items()})
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    same(snug.io.load(path), wanted)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_we_read_npz_of_numpy(write, tmp_path):
    path = tmp_path / "a.npz"
    wanted = {n: np.ascontiguousarray(v).reshape(v.shape) for n, v in arrays().items()}
    write(path, **wanted)
    found, metadata = snug.io.load_with_metadata(path)
    same(found, wanted)
    assert metadata == {}


def test_damaged_npz(tmp_path):
    whole = tmp_path / "whole.npz"
    np.savez_compressed(whole, a=np.arange(300.0), b=np.ones(3, "int8"))
    content = whole.read_bytes()
    rng = np.random.default_rng(2)
    path = tmp_path / "a.npz"
    for _ in range(200):
        damaged = bytearray(content)
        damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
        if rng.random() < 0.3:
            del damaged[rng.integers(len(damaged)) :]
        path.write_bytes(damaged)
        with contextlib.suppress(ValueError, NotImplementedError):
            snug.io.load(path)
    with pytest.raises(NotImplementedError, match="bfloat16"):
        snug.io.save(path, {"a": np.ones(2, ml_dtypes.bfloat16)})


def entries_of(content):
    """Where the entries of the directory begin, and the end record."""
    end = content.rfind(b"PK\5\6")
    found, at = [], content.find(b"PK\1\2")
    while 0 <= at < end:
        found.append(at)
        at = content.find(b"PK\1\2", at + 4)
    return found, end


def test_a_wrong_count_of_entries_loses_no_array(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.ones(3), y=np.zeros(3))
    content = bytearray(path.read_bytes())
    _, end = entries_of(content)
    for count in (0, 1, 3):
        for places in ([8, 10], [10]):
            for place in places:
                content[end + place] = count
            path.write_bytes(content)
            for read in (snug.io.load, snug.data.npz):
                with pytest.raises(ValueError, match="entries"):
                    read(path)
            content[end + 8] = content[end + 10] = 2
    path.write_bytes(content)
    assert set(snug.io.load(path)) == {"x", "y"}


def archive(names, content, packed, place=None):
    """A ZIP archive whose entries all have this content, or share it at one place."""
    crc = zlib.crc32(content)
    head = struct.pack("<HHHIII", 8, 0, 33, crc, len(packed), len(content))
    body = directory = b""
    for name in names:
        at = len(body) if place is None else place
        if at == len(body):
            body += b"PK\3\4" + struct.pack("<HH", 20, 0) + head
            body += struct.pack("<HH", len(name), 0) + name + packed
        directory += b"PK\1\2" + struct.pack("<HHH", 20, 20, 0) + head
        directory += struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, at) + name
    end = struct.pack("<HHHHIIH", 0, 0, len(names), len(names), len(directory), len(body), 0)
    return body + directory + b"PK\5\6" + end


def test_entries_that_share_their_bytes_are_refused(tmp_path):
    """300 entries on one packed array: 80 KB that would become 20 GB."""
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(1 << 20, "f4"))
    content = buffer.getvalue()
    packed = zlib.compress(content, 9, -15)
    path = tmp_path / "a.npz"
    path.write_bytes(archive([b"a.npy", b"b.npy"], content, packed))
    assert sorted(snug.io.load(path)) == ["a", "b"]
    path.write_bytes(archive([b"a.npy"] * 300, content, packed, place=0))
    for read in (snug.io.load, snug.data.npz):
        with pytest.raises(ValueError, match=r"its members 'a\.npy' and 'a\.npy' overlap"):
            read(path)
    path.write_bytes(archive([b"a.npy", b"b.npy"], content, packed, place=0))
    with pytest.raises(ValueError, match=r"b\.npy: its header has another name"):
        snug.io.load(path)
    path.write_bytes(archive([b"a.npy", b"a.npy"], content, packed))
    with pytest.raises(ValueError, match="two arrays are named 'a'"):
        snug.io.load(path)
    path.write_bytes(archive([b"\xe9.npy"], content, packed))
    with pytest.raises(ValueError, match="is not in UTF-8"):
        snug.io.load(path)


FULL_DISK = """
import resource, signal, sys, numpy as np, snug
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
checkpoints = snug.io.Checkpoints(sys.argv[1])
try:
    checkpoints.save(2, {"a": np.ones(100_000)}, best=True)
except RuntimeError as error:
    assert "make room" in str(error), error
    print("full")
"""


def test_a_full_disk_loses_nothing(tmp_path):
    checkpoints = snug.io.Checkpoints(str(tmp_path))
    checkpoints.save(1, {"a": np.arange(5)}, best=True)
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True
    )
    assert run.stdout == "full\n", run.stderr
    path, found, _, skipped = checkpoints.load_newest()
    assert path.endswith("checkpoint-000000000001.safetensors") and not skipped
    assert found["a"].tolist() == list(range(5))
    assert snug.io.load(checkpoints.best_path)["a"].tolist() == list(range(5))
    assert len(list(tmp_path.iterdir())) == 2


# ---- checkpoints


def saved(tmp_path, steps, **options):
    checkpoints = snug.io.Checkpoints(str(tmp_path), **options)
    for step in steps:
        checkpoints.save(step, {"a": np.full(3, step)}, {"epoch": str(step)}, best=step == steps[0])
    return checkpoints


def test_the_last_ones_and_the_best_are_kept(tmp_path):
    checkpoints = saved(tmp_path, [10, 20, 30, 40])
    names = ["best.safetensors"] + [f"checkpoint-{n:012}.safetensors" for n in (30, 40)]
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    path, found, metadata, skipped = checkpoints.load_newest()
    assert path.endswith(names[2]) and found["a"].tolist() == [40] * 3 and skipped == []
    assert metadata["epoch"] == "40" and metadata["step"] == "40"
    assert snug.io.load(checkpoints.best_path)["a"].tolist() == [10] * 3
    assert safetensors.numpy.load_file(checkpoints.best_path)["a"].tolist() == [10] * 3


def test_damaged_and_foreign_files_are_named_and_skipped(tmp_path):
    checkpoints = saved(tmp_path, [1, 2, 3], keep=3)
    newest = tmp_path / "checkpoint-000000000003.safetensors"
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1  # one bit of the data
    newest.write_bytes(content)
    safetensors.numpy.save_file({"a": np.ones(3)}, tmp_path / "checkpoint-000000000009.safetensors")
    _, found, _, skipped = checkpoints.load_newest()
    assert found["a"].tolist() == [2] * 3
    assert len(skipped) == 2
    assert "000000000009.safetensors: has no hash" in skipped[0]
    assert "000000000003.safetensors: is damaged" in skipped[1]


def test_every_bit_counts(tmp_path):
    checkpoints = saved(tmp_path, [1])
    os.unlink(checkpoints.best_path)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    for at in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        assert checkpoints.load_newest()[0] is None, at
    for length in (0, 5, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        assert checkpoints.load_newest()[0] is None, length


def test_no_checkpoint(tmp_path):
    assert snug.io.Checkpoints(str(tmp_path / "new")).load_newest() == (None, None, None, [])


def test_what_a_killed_writer_left_is_removed(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = tmp_path / f"checkpoint-000000000001.safetensors.partial-{dead.pid}-0"
    own = tmp_path / f"checkpoint-000000000001.safetensors.partial-{os.getpid()}-999"
    left.write_bytes(b"half")
    own.write_bytes(b"half")
    saved(tmp_path, [2])
    assert not left.exists() and own.exists()
