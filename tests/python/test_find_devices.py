"""What `snug devices` says with drivers of several kinds, which are libraries made for a test."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "drivers" / "fake_driver.c"
CRASHES = "__attribute__((constructor)) static void crash(void) { __builtin_trap(); }\n"


@pytest.fixture
def vendors(tmp_path):
    """Adds drivers to a folder, by their names and macros."""

    class Vendors:
        folder = tmp_path / "vendors"

        def add(self, name, _source=None, **macros):
            library = tmp_path / f"lib{name}.so"
            source = SOURCE
            if _source:
                source = tmp_path / f"{name}.c"
                source.write_text(_source)
            given = [f"-D{key}" + ("" if v is True else f"={v}") for key, v in macros.items()]
            subprocess.run(["cc", "-shared", "-fPIC", *given, "-o", library, source], check=True)
            (self.folder / f"{name}.icd").write_text(f"{library}\n")

        def run(self, program):
            done = subprocess.run(
                [sys.executable, "-c", "import snug\n" + program],
                env={
                    "OCL_ICD_VENDORS": str(self.folder),
                    "PATH": "/usr/bin:/bin",
                    "HOME": str(tmp_path),
                    "POCL_CACHE_DIR": os.environ.get("POCL_CACHE_DIR", str(tmp_path)),
                    "SNUG_CACHE_DIR": os.environ.get("SNUG_CACHE_DIR", ""),
                },
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        def listed(self):
            return self.run("print(snug.devices())")

    Vendors.folder.mkdir()
    return Vendors()


def text(value):
    return f'"{value}"'


def test_devices_that_cannot_be_used_are_listed_with_the_reason(vendors):
    vendors.add("old", MODEL=text("Old card"), VERSION=text("OpenCL 1.1 old"), PLATFORM=text("Old"))
    vendors.add("bare", MODEL=text("Bare card"), COMPILER="CL_FALSE", PLATFORM=text("Bare"))
    vendors.add("busy", MODEL=text("Busy card"), AVAILABLE="CL_FALSE", PLATFORM=text("Busy"))
    vendors.add("good", MODEL=text("Good card"))
    said = vendors.run(
        "d = snug.devices()\n"
        "print([x.name for x in d], [x.model for x in d.unusable])\n"
        "print(d)\n"
        "x = snug.tensor.vector()\n"
        "try: snug.function([x], x, device='opencl:1')\n"
        "except RuntimeError as e: print(e)\n"
    )
    assert said.startswith("['cpu', 'opencl:0'] ['Bare card', 'Busy card', 'Old card']\n")
    assert re.search(r"^opencl:0 +gpu +8.00 GiB +2.00 GiB +20 +yes +no +Good card, ", said, re.M)
    for model, why in [
        ("Old card", "OpenCL 1.2 is needed, and its driver has 1.1"),
        ("Bare card", "its driver has no compiler"),
        ("Busy card", "its driver says it is not available"),
    ]:
        assert re.search(rf"^- +gpu .*{model}, .*: cannot be used: {why}$", said, re.M), said
    assert "no device 'opencl:1'; there are: cpu, opencl:0 (Good card)\n" in said


def test_one_card_under_two_drivers_is_one_entry(vendors):
    # Two cards that look the same, each under two drivers; the names of files decide the order.
    made = {"MODEL": text("Card"), "BUS": 3, "DEVICES": 2}
    vendors.add("a", PLATFORM=text("Clover"), VERSION=text("OpenCL 1.2 x"), **made)
    vendors.add("b", PLATFORM=text("Maker's own"), VERSION=text("OpenCL 3.0 x"), **made)
    ask = (
        "d = snug.devices()\n"
        "for x in d[1:]: print(x.name, x.driver, [(o.name, o.driver) for o in x.others])\n"
    )
    expected = (
        "opencl:0 OpenCL 3.0 x, driver 7.1 [('opencl:0@clover', 'OpenCL 1.2 x, driver 7.1')]\n"
        "opencl:1 OpenCL 3.0 x, driver 7.1 [('opencl:1@clover', 'OpenCL 1.2 x, driver 7.1')]\n"
    )
    assert vendors.run(ask) == expected
    assert re.search(
        r"^opencl:0@clover +gpu .*  opencl:0 by another driver: OpenCL 1.2 x, driver 7.1$",
        vendors.listed(),
        re.M,
    )
    # Both may be asked for: what is missing of this driver is all but its list.
    assert "opencl:1@clover" in vendors.run(
        "snug.config.device = 'opencl:1@clover'\nprint(snug.config.device)"
    )
    for name in ("a", "b"):
        (vendors.folder / f"{name}.icd").rename(vendors.folder / f"{name}_.icd")
    (vendors.folder / "b_.icd").rename(vendors.folder / "a.icd")
    assert vendors.run(ask) == expected


def test_cards_that_only_look_the_same_are_two(vendors):
    vendors.add("a", PLATFORM=text("One"), BUS=3)
    vendors.add("b", PLATFORM=text("Two"), BUS=4)
    assert "['cpu', 'opencl:0', 'opencl:1']" in vendors.run(
        "print([d.name for d in snug.devices()])"
    )


def test_of_drivers_that_crash_or_hang_the_others_are_used(vendors):
    vendors.add("crash", CRASHES)
    vendors.add("hang", HANGS=True)
    vendors.add("good", PLATFORM=text("Good"), MODEL=text("Good card"))
    said = vendors.run(
        "from snug import _core\n_core._set_opencl_patience(1.0)\nprint(snug.devices())\n"
    )
    assert re.search(r"^opencl:0 +gpu .*Good card", said, re.M)
    assert "the OpenCL driver of hang.icd did not answer within 1 s" in said
    assert re.search(r"the OpenCL driver of crash.icd crashed while it was asked .*\(.+\)", said)


def test_a_function_beside_a_driver_that_crashes(vendors):
    # This process loads the others alone.
    pocl = Path("/etc/OpenCL/vendors/pocl.icd")
    if not pocl.exists():
        pytest.skip("no PoCL")
    (vendors.folder / "pocl.icd").write_text(pocl.read_text())
    vendors.add("crash", CRASHES)
    assert (
        vendors.run(
            "import os\n"
            "before = dict(os.environ)\n"
            "x = snug.tensor.vector()\n"
            "print(snug.function([x], x * 3, device='opencl:0')([1.0, 2.0]))\n"
            "print(dict(os.environ) == before, len(snug.devices()))\n"
        )
        == "[3. 6.]\nTrue 2\n"
    )


def test_drivers_that_are_missing_are_named(vendors):
    said = vendors.listed()
    assert f"in a container the driver's file in {vendors.folder} may be missing" in said
    (vendors.folder / "nvidia.icd").write_text("libnvidia-opencl-of-no-one.so.1\n")
    said = vendors.listed()
    assert f"{vendors.folder}/nvidia.icd names a driver that cannot be loaded (libnvidia-" in said


def test_importing_looks_for_no_devices(vendors, tmp_path):
    mark = tmp_path / "asked"
    vendors.add(
        "marks",
        "#include <fcntl.h>\n"
        "__attribute__((constructor)) static void mark(void)"
        f'{{ open("{mark}", O_CREAT | O_WRONLY, 0600); }}\n',
    )
    vendors.run("x = snug.tensor.vector()\nsnug.function([x], x + 1)([1.0])\n")
    assert not mark.exists()
    vendors.listed()
    assert mark.exists()


def test_files_of_cards_that_cannot_be_opened(vendors, tmp_path):
    # Nobody can open a socket as a file.
    (tmp_path / "dev" / "dri").mkdir(parents=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "dev" / "dri" / "renderD128"))
    said = vendors.run(
        f"from snug import _core\nprint(_core._why_no_opencl_devices({str(tmp_path / 'dev')!r}))\n"
    )
    assert re.search(
        r"cannot open the files of cards: \S+/dri/renderD128 \(of the group \w+\): ", said
    )
