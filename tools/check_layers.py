#!/usr/bin/env python3
"""Checks that no folder of src/ includes a later one, that the headers of LLVM, oneDNN, OpenCL and
of file formats stay inside their folders, and that of what comes after them only compile knows
backends.

The order is SNUG_LAYERS in CMakeLists.txt. A layer is a folder (base) or a pair of files (compile
is compile.h and compile.cpp). src/snug.h is for users: it may include all, no layer includes it.

    tools/check_layers.py [--self-test] [ROOT]
"""

import re
import sys
import tempfile
from pathlib import Path

FOREIGN = {  # headers of a library -> the one folder that may include them
    re.compile(r"llvm(-c)?/"): "backend/cpu",
    re.compile(r"(oneapi/dnnl/|dnnl)"): "backend/onednn",
    re.compile(r"kissfft"): "backend/native",
    re.compile(r"CL/"): "backend/opencl",
    re.compile(r"(zlib|jpeglib|png)\.h"): "data",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
UMBRELLA = "snug.h"


def read_layers(root: Path) -> list[str]:
    text = (root / "CMakeLists.txt").read_text()
    match = re.search(r"set\(SNUG_LAYERS\s+([^)]*)\)", text)
    if not match:
        raise SystemExit("check_layers: CMakeLists.txt does not set SNUG_LAYERS")
    return match.group(1).split()


def layer_of(path: str, layers: list[str]) -> str | None:
    """The layer of a path relative to src/, as "base/error.h" or "compile.cpp"."""
    stem = path.rsplit(".", 1)[0]
    found = [layer for layer in layers if path.startswith(layer + "/") or stem == layer]
    return max(found, key=len, default=None)


def check(root: Path) -> list[str]:
    """One line per fault; empty if there is none."""
    layers = read_layers(root)
    faults = []
    for folder in ("src", "tools", "python", "tests", "examples"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in (".h", ".cpp"):
                faults += check_file(root, file, layers)
    return faults


def check_file(root: Path, file: Path, layers: list[str]) -> list[str]:
    in_src = file.is_relative_to(root / "src")
    name = file.relative_to(root / "src").as_posix() if in_src else ""
    own = layer_of(name, layers) if in_src else None
    if in_src and own is None and name != UMBRELLA:
        return [f"{file.relative_to(root)}: its folder is not in SNUG_LAYERS"]

    faults = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, target = match.groups()
        where = f"{file.relative_to(root)}:{number}"
        for pattern, home in FOREIGN.items():
            if pattern.match(target) and own != home:
                faults.append(f"{where}: <{target}> belongs to src/{home} alone")
        if quote == "<" or own is None:
            continue
        if target == UMBRELLA:
            faults.append(f"{where}: {own} includes {UMBRELLA}, which is for users")
            continue
        other = layer_of(target, layers)
        if other is None:
            continue
        if layers.index(other) > layers.index(own):
            faults.append(f"{where}: {own} includes {target}, but {other} comes after {own}")
        elif other.startswith("backend/") and not own.startswith("backend/") and own != "compile":
            faults.append(f"{where}: {own} includes {target}, but only compile knows backends")
    return faults


def self_test() -> None:
    """The check finds each kind of fault and passes what is right."""
    cases = {  # file -> (text, part of the fault or "" for none)
        "src/base/good.h": ("#include <vector>\n", ""),
        "src/graph/good.cpp": ('#include "base/good.h"\n#include "graph/graph.h"\n', ""),
        "src/base/bad.h": ('  # include "graph/graph.h"\n', "base includes graph/graph.h"),
        "src/backend/cpu/good.cpp": ("#include <llvm/IR/Module.h>\n", ""),
        "src/backend/cpu/bad.cpp": ('#include "compile.h"\n', "compile comes after backend/cpu"),
        "src/compile.cpp": ('#include "backend/cpu/cpu.h"\n#include "compile.h"\n', ""),
        "src/graph/bad.h": ('#include "llvm/IR/Module.h"\n', "belongs to src/backend/cpu"),
        "src/api/bad.cpp": ("#include <oneapi/dnnl/dnnl.hpp>\n", "belongs to src/backend/onednn"),
        "src/api/bad2.cpp": ('#include "snug.h"\n', "which is for users"),
        "src/api/bad3.cpp": ('#include "backend/cpu/cpu.h"\n', "only compile knows backends"),
        "src/snug.h": ('#include "api/function.h"\n', ""),
        "src/other/new.h": ("", "not in SNUG_LAYERS"),
        "tools/snug/main.cpp": ('#include "api/function.h"\n', ""),
        "src/graph/bad2.h": ("#include <zlib.h>\n", "belongs to src/data"),
        "tests/cpp/bad_test.cpp": ("#include <CL/cl.h>\n", "belongs to src/backend/opencl"),
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "CMakeLists.txt").write_text(
            "set(SNUG_LAYERS\n  base graph\n  backend/cpu compile api)\n"
        )
        for name, (text, _) in cases.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        faults = check(root)
    for name, (_, expected) in cases.items():
        mine = [fault for fault in faults if fault.startswith(name + ":")]
        right = len(mine) == 1 and expected in mine[0] if expected else not mine
        if not right:
            raise SystemExit(f"check_layers: self-test: {name}: expected {expected!r}, got {mine}")


def main(arguments: list[str]) -> int:
    if "--self-test" in arguments:
        self_test()
        arguments.remove("--self-test")
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    faults = check(root)
    print("\n".join(faults) if faults else "check_layers: no folder includes a later one")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
