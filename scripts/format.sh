#!/bin/bash
# Formats the C++ sources; with --check only names those that are not formatted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sources() {
  local folder
  for folder in src tools tests python examples benchmarks; do
    [ ! -d "$folder" ] || find "$folder" -name '*.h' -o -name '*.cpp'
  done
}
if [ "${1:-}" != --check ]; then
  sources | xargs -d '\n' clang-format -i
  exit
fi
wrong=$(sources | xargs -d '\n' -P "$(nproc)" -n 8 clang-format --dry-run 2>&1 |
  sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: code should be clang-formatted.*/\1/p' | sort -u)
[ -n "$wrong" ] || exit 0
printf '%s\n' "$wrong" "hint  scripts/format.sh formats them"
exit 1
