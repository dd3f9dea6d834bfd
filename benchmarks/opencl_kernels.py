"""What kernels laid out for a card cost there, as far as that is known without one: for every form
of opencl_forms.cpp the registers and spills on sm_80 and gfx90a, bytes of memory that are moved per
byte asked, and multiply-adds per word read from local memory.

    .venv/bin/python benchmarks/opencl_kernels.py [--only PATTERN]

Bytes are counted by Oclgrind with a plugin of ours (oclgrind_traffic.cpp), in sectors of 32 bytes
for 32 items that run together. Run it where the library is built (build/libsnug.so).
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = ROOT / "build"
WORK = BUILD / "opencl_kernels"
NEEDS = {  # what is looked for, and where it comes from
    "/usr/lib/oclgrind/liboclgrind-rt-icd.so": "oclgrind",
    "/usr/include/oclgrind/Plugin.h": "liboclgrind-dev",
    "/usr/lib/llvm-14/include/llvm": "llvm-14-dev",
    "clang-19": "clang-19",
    "/usr/lib/clc/nvptx64--nvidiacl.bc": "libclc-19",
    "ptxas": "nvidia-cuda-toolkit, or NVIDIA's CUDA toolkit",
}
MOST_MOVED = 1.3  # bytes moved per byte asked


def check_tools():
    missing = [
        package
        for what, package in NEEDS.items()
        if not (Path(what).exists() if what.startswith("/") else shutil.which(what))
    ]
    if not (BUILD / "libsnug.so").exists():
        sys.exit("build the library first: scripts/setup.sh")
    if missing:
        sys.exit("this needs the Debian packages " + ", ".join(missing))


def run(command, **options):
    """By words; in the root of the tree."""
    done = subprocess.run(command.split(), capture_output=True, text=True, cwd=ROOT, **options)
    if done.returncode:
        sys.exit(f"{command}\n{done.stdout}{done.stderr}")
    return done


def build():
    WORK.mkdir(exist_ok=True)
    run(
        "g++ -O1 -std=c++20 -Isrc benchmarks/opencl_forms.cpp -o build/opencl_kernels/forms "
        "-Lbuild -lsnug -lfmt -Wl,-rpath,$ORIGIN/.."
    )
    run(
        "g++ -O2 -std=c++17 -fno-rtti -shared -fPIC -I/usr/lib/llvm-14/include "
        "benchmarks/oclgrind_traffic.cpp -o build/opencl_kernels/libtraffic.so -loclgrind -lLLVM-14"
    )
    (WORK / "oclgrind.icd").write_text("/usr/lib/oclgrind/liboclgrind-rt-icd.so\n")


def launches(form):
    """What the plugin says of every launch with work, and the text of its program."""
    name = re.sub(r"\W+", "_", form)
    for old in WORK.glob(name + "*"):
        old.unlink()
    shutil.rmtree(WORK / "cache", ignore_errors=True)  # kept programs have no text
    environment = os.environ | {
        "OCL_ICD_VENDORS": str(WORK),
        "OCLGRIND_PLUGINS": str(WORK / "libtraffic.so"),
        "SNUG_CACHE_DIR": str(WORK / "cache"),
        "TRAFFIC": str(WORK / name),
        "FORM": form,
    }
    run("build/opencl_kernels/forms", env=environment)
    found = [json.loads(line) for line in (WORK / name).read_text().splitlines()]
    for launch in found:
        launch["source"] = f"build/opencl_kernels/{name}.{launch['program']}.cl"
    return [one for one in found if one["loads"]["asked"] or one["stores"]["asked"]]


CLANG = "clang-19 -x cl -cl-std=CL1.2 -O3 -Xclang -finclude-default-header"


def on_nvidia(source):
    """Registers and bytes of spills of every kernel, by its name."""
    run(
        f"{CLANG} -target nvptx64--nvidiacl -march=sm_80 -Xclang -mlink-bitcode-file "
        f"-Xclang /usr/lib/clc/nvptx64--nvidiacl.bc -S {source} -o {source}.ptx"
    )
    log = run(f"ptxas -v -arch=sm_80 {source}.ptx -o /dev/null").stderr
    result = {}
    for part in log.split("Compiling entry function '")[1:]:
        stores, loads = re.search(
            r"(\d+) bytes spill stores, (\d+) bytes spill loads", part
        ).groups()
        registers = re.search(r"Used (\d+) registers", part).group(1)
        result[part.split("'")[0]] = int(registers), int(stores) + int(loads)
    return result


def on_amd(source):
    """Likewise, and waves that run at a time on a unit of four."""
    log = run(
        f"{CLANG} -target amdgcn-amd-amdhsa -mcpu=gfx90a -nogpulib -S {source} "
        "-Rpass-analysis=kernel-resource-usage -o /dev/null"
    ).stderr
    result = {}
    for part in log.split("Function Name: ")[1:]:

        def number(what, part=part):
            return int(re.search(what + r": (\d+)", part).group(1))

        # Scalar registers that do not suffice are kept in vector registers.
        spills = number(r"ScratchSize \[bytes/lane\]")
        result[part.split()[0]] = number("VGPRs"), spills, number(r"Occupancy \[waves/SIMD\]")
    return result


def ratio(above, below):
    return f"{above / below:.2f}" if below else "-"


def rows(form, found):
    """Of every kernel the launch that moves most."""
    largest = {}
    for one in found:
        one["asked"] = one["loads"]["asked"] + one["stores"]["asked"]
        if one["asked"] >= largest.get(one["kernel"], one)["asked"]:
            largest[one["kernel"]] = one
    for one in largest.values():
        name, loads, stores = one["kernel"], one["loads"], one["stores"]
        registers, spills = on_nvidia(one["source"])[name]
        vector, amd_spills, waves = on_amd(one["source"])[name]
        moved = loads["moved"] + stores["moved"]
        yield (
            form,
            re.sub(r"^snug_|_[0-9a-f]{12}$", "", name),
            f"{registers}/{spills}",
            f"{vector}/{amd_spills}",
            str(waves),
            ratio(moved, one["asked"]),
            ratio(loads["moved"], loads["asked"]),
            ratio(stores["moved"], stores["asked"]),
            ratio(moved, loads["touched"] + stores["touched"]),
            ratio(4 * one["divisions"], one["asked"]),
            ratio(one["fma"], loads["local"]),
            ratio(
                loads["passes"] + stores["passes"], loads["least_passes"] + stores["least_passes"]
            ),
        )
        form = ""


HEAD = (
    "form", "kernel", "sm_80", "gfx90a", "waves", "moved", "loads", "stores", "again", "div", "fma",
    "banks",
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="forms whose name matches")
    asked = parser.parse_args()
    check_tools()
    build()
    table = [HEAD]
    for form in run("build/opencl_kernels/forms").stdout.splitlines():
        if fnmatch.fnmatch(form, asked.only):
            print(form, file=sys.stderr)
            table += rows(form, launches(form))
    widths = [max(map(len, column)) for column in zip(*table)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    above = {row[1] for row in table[1:] if row[5] != "-" and float(row[5]) > MOST_MOVED}
    print(f"\nabove {MOST_MOVED}: {', '.join(sorted(above)) or 'none'}")


if __name__ == "__main__":
    main()
