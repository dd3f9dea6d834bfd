#!/bin/bash
# Builds Snug and runs every test. Does its own set-up.
#   ./test.sh [--long]     --long: also the tests that take long
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

for argument in "$@"; do
  case $argument in
    --long) export SNUG_LONG=1 ;;
    *) printf 'test.sh: unknown argument %s\nusage: ./test.sh [--long]\n' "$argument" >&2; exit 2 ;;
  esac
done

# What PoCL compiles for the tests is kept where a clean build begins anew.
export POCL_CACHE_DIR=$PWD/build/pocl
mkdir -p "$POCL_CACHE_DIR"

results=() failed=0

# step NAME COMMAND...: runs it, goes on if it fails.
step() {
  local name=$1 start=$SECONDS verdict=ok
  shift
  printf '\n== %s\n' "$name"
  "$@" </dev/null || { verdict=FAIL; failed=1; }
  results+=("$(printf '%-4s  %-28s %5d s' "$verdict" "$name" $((SECONDS - start)))")
}

summary() {
  printf '\n== summary\n'
  printf '%s\n' "${results[@]}"
  printf '\n%s in %d min %02d s\n' "$1" $((SECONDS / 60)) $((SECONDS % 60))
}

# The C++ tests; lines about tests that passed are left out.
cpp_tests() {
  local status=0
  ctest --test-dir build -j "$(nproc)" --output-on-failure >build/ctest.log 2>&1 || status=1
  grep -vE '^ +Start +[0-9]+:| Passed +[0-9.]+ sec$|^$' build/ctest.log
  return $status
}

step "set-up and build" scripts/setup.sh snug_tests
if [ $failed = 1 ]; then
  summary "the build FAILED"
  exit 1
fi

step "installed package" tests/python_package.sh
step "order of folders" .venv/bin/python tools/check_layers.py --self-test
step "Python style" .venv/bin/ruff check
step "C++ format" scripts/format.sh --check
step "C++ tests" cpp_tests
step "outside C++ program" tests/install/run.sh
step "Python tests" .venv/bin/python -m pytest -q -n "$(nproc)" --dist worksteal tests/python
step "scattered over devices" tests/devices.sh
step "on an OpenCL device" tests/opencl.sh
step "other instruction sets" tests/instruction_sets.sh
step "C++ tests under sanitizers" tests/sanitize/run.sh

if [ $failed = 1 ]; then
  summary "some tests FAILED"
  exit 1
fi
summary "all tests passed"
