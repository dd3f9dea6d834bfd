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
failed=0
.venv/bin/python -m pytest -q -n "$(nproc)" --dist worksteal "${tests[@]}" || failed=1
if [ "${SNUG_LONG:-}" = 1 ]; then
  # A simulator that sees races and accesses out of bounds; it has no programs to keep.
  mkdir -p build/oclgrind
  echo /usr/lib/oclgrind/liboclgrind-rt-icd.so >build/oclgrind/oclgrind.icd
  : >build/oclgrind/log
  OCL_ICD_VENDORS=$PWD/build/oclgrind OCLGRIND_DATA_RACES=1 OCLGRIND_LOG=$PWD/build/oclgrind/log \
    build/snug_tests --gtest_brief=1 --gtest_filter='OpenCl.*:OpenClFunctions.*:OpenClPrecision.*-OpenCl.ProgramsAreKeptOnDisk' || failed=1
  if [ -s build/oclgrind/log ]; then
    head -50 build/oclgrind/log
    failed=1
  fi
fi
exit $failed
