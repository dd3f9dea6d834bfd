#!/bin/bash
# What pip installed works from another folder: the package, its version and the tool.
set -euo pipefail
bin=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.venv/bin
cd /
"$bin/python" - <<'PY'
import importlib.metadata
import pathlib

import snug

here = pathlib.Path(snug.__file__).parent
assert "site-packages" in here.parts, here
for name in ("libsnug.so.0", "_core.pyi", "py.typed"):
    assert (here / name).is_file(), f"the wheel lacks {name}"
version = importlib.metadata.version("snug")
assert snug.__version__ == version, (snug.__version__, version)
print("import snug:", version)
PY
"$bin/snug" --version
