#!/bin/bash
# Installs the C++ package into build/installed, builds the programs here against it, and runs them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$here/../../build
rm -rf "$build/installed" "$build/outside"
cmake --install "$build" --prefix "$build/installed" >/dev/null
cmake -S "$here" -B "$build/outside" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$(cd "$build/installed" && pwd)" >/dev/null
ninja --quiet -C "$build/outside"
"$build/outside/outside"
"$build/outside/handles"
SNUG_FLAGS="floatX=float64,threads=1,memory=64MiB" "$build/outside/handles" flags
SNUG_FLAGS="floatx=float64" "$build/outside/handles" wrong
"$build/installed/bin/snug" --version
