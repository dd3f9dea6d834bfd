#!/bin/bash
# Functions on the first OpenCL device, which is the processor through PoCL where there is no card: the
# tests of numbers must not notice. What is compiled for it is kept in build/.
#   SNUG_LONG=1: also the tests that take long, an hour without kept programs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p build/pocl build/opencl
export SNUG_FLAGS=device=opencl:0 POCL_CACHE_DIR=$PWD/build/pocl SNUG_CACHE_DIR=$PWD/build/opencl
tests=(tests/python/test_conv.py tests/python/test_scan.py)
if [ "${SNUG_LONG:-}" = 1 ]; then
  tests+=(tests/python/test_conformance.py tests/python/test_random_graphs.py
    tests/python/test_indexing.py tests/python/test_in_place.py)
fi
exec .venv/bin/python -m pytest -q -n "$(nproc)" --dist worksteal "${tests[@]}"
