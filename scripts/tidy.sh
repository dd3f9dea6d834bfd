#!/bin/bash
# Checks C++ sources against the allow list of .clang-tidy. Needs a build (scripts/setup.sh) and
# Debian's clang-tidy-19, which nothing else here needs.
#   scripts/tidy.sh [FILE...]     default: all of src
#   CLANG_TIDY=...                another clang-tidy
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tidy=${CLANG_TIDY:-clang-tidy-19}
if ! command -v "$tidy" >/dev/null; then
  printf 'tidy: %s is missing\nhint  apt-get install clang-tidy-19\n' "$tidy" >&2
  exit 1
fi
# clang cannot read the precompiled header of g++, and has no omp.h of its own.
mkdir -p build/tidy/include
sed 's/__malloc__ (omp_free)/__malloc__/' "$(g++ -print-file-name=include)/omp.h" \
  >build/tidy/include/omp.h
sed -E 's# -Winvalid-pch -include [^ ]*cmake_pch.hxx##' \
  build/compile_commands.json >build/tidy/compile_commands.json

files=("$@")
[ $# -gt 0 ] || mapfile -t files < <(find src -name '*.cpp' | sort)
printf '%s\n' "${files[@]}" |
  nice xargs -d '\n' -P "$(nproc)" -n 4 "$tidy" -p build/tidy --quiet --warnings-as-errors='*' \
    --extra-arg=-isystem"$PWD/build/tidy/include" \
    2> >(grep -vE '^\[|warnings? .*(generated|treated as)' >&2)
