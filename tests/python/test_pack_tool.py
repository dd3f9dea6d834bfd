"""`snug pack` on the command line."""

import csv
import json
import pathlib
import subprocess
import sys

import pytest

TOOL = pathlib.Path(sys.executable).parent / "snug"
sys.path.append(str(pathlib.Path(__file__).parents[2] / "benchmarks"))

BUFFERS = """id,lower,upper,size
b1,0,3,4
b2,3,9,4
b3,0,9,4
b4,9,21,4
b5,0,21,4
"""


def pack(tmp_path, text, *options, status=0):
    path = tmp_path / "buffers.csv"
    path.write_text(text)
    done = subprocess.run([TOOL, "pack", path, *options], capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def test_writes_offsets(tmp_path):
    out = tmp_path / "out.csv"
    done = pack(tmp_path, BUFFERS, "--capacity", "12", "--output", out)
    assert "fits" in done.stdout and "proved" in done.stdout
    rows = list(csv.DictReader(out.open()))
    assert [r["id"] for r in rows] == ["b1", "b2", "b3", "b4", "b5"]
    taken = [[int(r[k]) for k in ("lower", "upper", "offset", "size")] for r in rows]
    for i, (a, b, at, size) in enumerate(taken):
        assert at + size <= 12
        for c, d, other, bytes in taken[:i]:
            assert b <= c or d <= a or at + size <= other or other + bytes <= at
    assert "no two" in pack(tmp_path, out.read_text(), "--check", "--capacity", "12").stdout
    assert (
        "leaves" in pack(tmp_path, out.read_text(), "--check", "--capacity", "11", status=1).stdout
    )
    shifted = BUFFERS.replace("size", "size,offset").replace(",4\n", ",4,2\n")
    assert "overlap" in pack(tmp_path, shifted, "--check", status=1).stdout


def test_json(tmp_path):
    answer = json.loads(pack(tmp_path, BUFFERS, "--json", "--capacity", "11", status=1).stdout)
    assert answer["load"] == answer["height"] == answer["bound"] == 12
    assert answer["proved"] and not answer["fits"] and answer["capacity"] == 11


def test_columns_by_other_names(tmp_path):
    """The time of "end" is included; any order; Windows line ends; spaces; empty lines."""
    text = "size, end,start,buffer_id\r\n5,3,0,a\r\n\r\n7,6,3,b\r\n"
    assert json.loads(pack(tmp_path, text, "--json").stdout)["height"] == 12


@pytest.mark.parametrize("other, height", [(16, 21), (8, 13), (6, 11)])
def test_alignment(tmp_path, other, height):
    out = tmp_path / "out.csv"
    text = f"id,lower,upper,size,alignment\na,0,2,5,16\nb,1,3,5,{other}\n"
    answer = json.loads(pack(tmp_path, text, "--json", "--output", out).stdout)
    assert answer["height"] == height
    rows = list(csv.DictReader(out.open()))
    assert all(int(r["offset"]) % int(r["alignment"]) == 0 for r in rows)
    moved = out.read_text().replace(f"{other},0\n", f"{other},1\n").replace("16,0\n", "16,1\n")
    assert "is not aligned to" in pack(tmp_path, moved, "--check", status=1).stdout


def test_only_the_last_buffer_needs_no_padding(tmp_path):
    text = "lower,upper,size,alignment\n0,3,10,8\n0,3,7,8\n"
    answer = json.loads(pack(tmp_path, text, "--json", "--capacity", "18").stdout)
    assert answer["height"] == answer["bound"] == 18 and answer["fits"]


def test_check_names_buffers(tmp_path):
    text = "id,lower,upper,size,offset\na,0,3,4,0\nb,0,3,4,2\n"
    done = pack(tmp_path, text, "--check", status=1)
    assert done.stdout == '"a" (line 2) and "b" (line 3) overlap\n'
    answer = json.loads(pack(tmp_path, text, "--check", "--json", status=1).stdout)
    assert not answer["valid"] and "overlap" in answer["fault"]
    text = "lower,upper,size,offset\n0,3,4,0\n0,3,4,2\n"
    assert "line 2 and line 3" in pack(tmp_path, text, "--check", status=1).stdout


def test_a_mark_of_utf8_is_no_column(tmp_path):
    assert "proved" in pack(tmp_path, "\ufeff" + BUFFERS).stdout


def test_capacity_is_blamed(tmp_path):
    error = pack(tmp_path, BUFFERS, "--capacity", "lots", status=1).stderr
    assert "--capacity: 'lots' is no amount" in error


def test_directory(tmp_path):
    done = subprocess.run([TOOL, "pack", tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and "is a directory" in done.stderr


@pytest.mark.parametrize(
    "kind, sizes, slack, seed",
    [
        ("guillotine", "few", 0, 2),
        ("guillotine", "many", 1, 0),
        ("guillotine", "many", 5, 4),
        ("pinwheel", "few", 0, 12),
        ("pinwheel", "few", 5, 6),
        ("pinwheel", "many", 0, 14),
    ],
)
def test_cut_rectangles_fit_again(tmp_path, kind, sizes, slack, seed):
    import cut_rectangles

    instance = cut_rectangles.Instance(kind, sizes, slack, seed)
    out = tmp_path / "out.csv"
    capacity = "--capacity", str(instance.capacity)
    pack(tmp_path, instance.text(), *capacity, "--work", "1000000000", "--output", out)
    assert "no two" in pack(tmp_path, out.read_text(), *capacity, "--check").stdout


HEADER = "id,lower,upper,size\n"


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "empty"),
        ("id,lower,size\n", "upper"),
        ("id,lower,upper,upper,size\n", "twice"),
        ("id,lower,upper,size,colour\n", 'unknown column "colour"'),
        (HEADER + "a,0,1\n", "buffers.csv:2: 3 fields, the header has 4"),
        (HEADER + "a,0,1,5\nb,0,x,5\n", 'buffers.csv:3: upper "x" is no whole number'),
        (HEADER + "a,4,4,5\n", "lower 4 is not less than upper 4"),
        (HEADER + "a,0,4,-5\n", "size -5 is less than 0"),
        (HEADER + "a,0,4,9223372036854775808\n", "not a 64-bit number"),
        (HEADER + "a,0,4,9223372036854775807\nb,0,4,1\n", "alive at 0"),
        ("id,lower,upper,size,hint\na,0,1,5,-1\nb,0,1,5,3\n", 'column "hint"'),
        ("id,lower,upper,size,gaps\na,0,9,5,2-3\n", 'column "gaps"'),
        ("id,lower,upper,size,offset\na,0,9,5,0\n", 'column "offset"'),
        ("id,lower,upper,size,alignment\na,0,9,5,0\n", "alignment 0 is less than 1"),
    ],
)
def test_bad_files(tmp_path, text, message):
    assert message in pack(tmp_path, text, status=1).stderr


def test_missing_file(tmp_path):
    done = subprocess.run([TOOL, "pack", tmp_path / "none"], capture_output=True, text=True)
    assert done.returncode == 1 and "cannot open" in done.stderr
