#!/bin/bash
# Brings a fresh Debian 12 to a built and installed Snug, and does nothing where nothing is to do:
# the packages of packages.txt, .venv with requirements.txt, the CMake build in build/, and the
# Python package and command line tool in .venv.
#   scripts/setup.sh [target...]     targets to build besides the package, e.g. snug_tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
python=$root/.venv/bin/python
mkdir -p build

say() { printf '== %s\n' "$*"; }

# Runs a command; shows what it printed only if it fails.
quietly() {
  if ! "$@" >build/setup.log 2>&1 </dev/null; then
    cat build/setup.log >&2
    printf 'setup: this failed: %s\n' "$*" >&2
    exit 1
  fi
}

install_packages() {
  local wanted installed missing sudo=()
  wanted=$(grep -v '^#' packages.txt)
  # shellcheck disable=SC2086
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $wanted 2>/dev/null |
    awk '$2 == "installed" { print $1 }' || true)
  missing=$(comm -23 <(sort -u <<<"$wanted") <(sort -u <<<"$installed") | xargs)
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    sudo=(sudo)
    [ -t 0 ] || sudo+=(-n)
    if ! command -v sudo >/dev/null || ! "${sudo[@]}" true 2>/dev/null; then
      printf 'setup: these Debian packages are missing, and installing needs root or sudo:\n' >&2
      printf '  apt-get install %s\n' "$missing" >&2
      exit 1
    fi
  fi
  say "installing Debian packages: $missing"
  local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q
    -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3)
  quietly "${apt[@]}" update
  # shellcheck disable=SC2086
  quietly "${apt[@]}" install -y --no-install-recommends $missing
}

make_venv() {
  local want
  want="$root $(/usr/bin/python3 --version) $(sha256sum <requirements.txt)"
  [ "$(cat .venv/.snug-stamp 2>/dev/null)" != "$want" ] || return 0
  say "making .venv with requirements.txt"
  # An environment that was moved, or has another Python, is of no use.
  case "$(cat .venv/.snug-stamp 2>/dev/null)" in
    "$root $(/usr/bin/python3 --version) "*) ;;
    *) rm -rf .venv && quietly /usr/bin/python3 -m venv .venv ;;
  esac
  quietly "$python" -m pip install --disable-pip-version-check --no-deps -r requirements.txt
  quietly "$python" -m pip check
  printf '%s' "$want" >.venv/.snug-stamp
}

build() {
  local options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DSNUG_PYTHON=ON -DSNUG_TESTS=ON
    -DCMAKE_INSTALL_PREFIX=/usr/local "-DPython_EXECUTABLE=$python")
  local stamp=build/.snug-stamp want="$root ${options[*]}"
  if [ ! -f build/build.ninja ] || [ "$(cat $stamp 2>/dev/null)" != "$want" ]; then
    say "configuring build/"
    # A build with other options, or of a tree that was moved, is of no use.
    [ ! -f build/CMakeCache.txt ] || { rm -rf build && mkdir build; }
    quietly cmake -S . -B build "${options[@]}"
    printf '%s' "$want" >$stamp
  fi
  say "building${*:+ with $*}"
  ninja -C build _core _core_stub snug_tool "$@"
}

# Hashes of everything that goes into the wheel.
wheel_contents() {
  {
    find python/snug -type f -not -path '*/__pycache__/*'
    ls build/libsnug.so build/bin/snug build/python/snug/_core.* \
      pyproject.toml CMakeLists.txt README.md LICENSE
  } | LC_ALL=C sort | xargs -d '\n' sha256sum
}

install_wheel() {
  local stamp=.venv/.snug-wheel contents
  contents=$(wheel_contents)
  if [ -x .venv/bin/snug ] && [ "$(cat $stamp 2>/dev/null)" = "$contents" ]; then return 0; fi
  say "installing the Python package and the tool into .venv"
  rm -f $stamp
  # The wheel is made in the same build tree: nothing is compiled twice.
  quietly "$python" -m pip install --disable-pip-version-check --no-build-isolation --no-deps \
    --no-index --config-settings=build-dir=build --config-settings=cmake.define.SNUG_TESTS=ON .
  quietly cmake -S . -B build -DCMAKE_INSTALL_PREFIX=/usr/local
  printf '%s' "$contents" >$stamp
}

install_packages
make_venv
build "$@"
install_wheel
