#!/bin/bash
# The tests that depend on instruction sets (limits, convolutions, products, bfloat16) under each set
# that this machine has besides its best one, which all tests run under: code of ours, of oneDNN and
# of OpenBLAS as it is on other machines.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

has() { grep -qwm1 "$1" /proc/cpuinfo; }

# Best first: the flag of the CPU, oneDNN's name (ours follows it), OpenBLAS's.
sets=()
if has amx_tile; then sets+=("AVX512_CORE_AMX SkylakeX"); fi
if has avx512_bf16; then sets+=("AVX512_CORE_BF16 SkylakeX"); fi
if has avx512dq && has avx512vl; then sets+=("AVX512_CORE SkylakeX"); fi
if has avx2; then sets+=("AVX2 Haswell"); fi

failed=0
for names in "${sets[@]:1}"; do
  read -r isa core <<<"$names"
  printf -- '-- %s\n' "$isa"
  export DNNL_MAX_CPU_ISA=$isa OPENBLAS_CORETYPE=$core
  build/snug_tests --gtest_brief=1 \
    --gtest_filter='Library.*:Bfloat16.*:ChannelsLast.*:CpuKernel.*:Canary.*' || failed=1
  if [ "$isa" != AVX2 ]; then  # float32 code is as with the best set, but for OpenBLAS's
    .venv/bin/python -m pytest -q -n "$(nproc)" --dist worksteal \
      tests/python/test_round_activations.py tests/python/test_linalg.py || failed=1
    continue
  fi
  .venv/bin/python -m pytest -q -n "$(nproc)" --dist worksteal tests/python/test_limits.py \
    tests/python/test_conv.py tests/python/test_linalg.py tests/python/test_round_activations.py \
    tests/python/test_memory.py tests/python/test_plan_tool.py || failed=1
  .venv/bin/python -m pytest -q -n "$(nproc)" --dist worksteal tests/python/test_conformance.py \
    -k 'dot or conv' || failed=1
done
exit $failed
