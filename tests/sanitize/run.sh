#!/bin/bash
# Builds the library with the address and undefined behaviour sanitizers in build/sanitize, and runs
# the C++ tests of build/ with it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=build/sanitize
# The build of a tree that was moved is of no use.
if ! grep -qsxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" $build/CMakeCache.txt; then rm -rf $build; fi
[ -f $build/build.ninja ] ||
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=None -DSNUG_SANITIZE=ON \
    -DSNUG_PYTHON=OFF -DSNUG_TOOL=OFF \
    -DSNUG_TEST_OBJECTS="$PWD/build/CMakeFiles/snug_tests.dir/tests/cpp" >/dev/null
ninja -C $build snug_tests
# The kernel cache is tested on its own: what is compiled here stays apart from the user's.
export XDG_CACHE_HOME=$PWD/$build/cache
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1}
export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=tests/sanitize/leaks.txt:print_suppressions=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
# Tests that are long searches and nothing else are left out: smaller ones go the same ways.
export GTEST_FILTER='-Sweep*:Recompute.AnMlpGivesTheSameBitsUnderBudgets:RoundActivations.GoesTogetherWithExactWays'
# One process per core, each with its share of the tests.
shards=$(nproc) failed=0 pids=()
for ((i = 0; i < shards; ++i)); do
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i \
    $build/snug_tests --gtest_brief=1 >$build/tests-$i.log 2>&1 &
  pids+=($!)
done
for ((i = 0; i < shards; ++i)); do
  wait "${pids[$i]}" || failed=1
  cat $build/tests-$i.log
done
exit $failed
