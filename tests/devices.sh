#!/bin/bash
# Functions scattered over the host and two simulated devices, which run what they are asked as late
# as they may: the tests of numbers must not notice.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export SNUG_SIMS=2
failed=0
build/snug_tests --gtest_brief=1 --gtest_filter='*Conformance*:Autodiff.*:Complex.*:Derivatives.*:Op*:Linalg.*:Nn.*:Optim.*:Fit.*:Functions.*:Handles.*:Shared.*:Branches.*:Random.*:MicroBatches.*:Serialize.*-OpenCl*:*OpenClConformance*:OpTable.*:MicroBatches.NeedLessMemory:Fit.PlansWithoutData' || failed=1
.venv/bin/python -m pytest -q -n "$(nproc)" --dist worksteal tests/python/test_conformance.py \
  tests/python/test_random_graphs.py tests/python/test_scan.py tests/python/test_ifelse.py \
  tests/python/test_indexing.py tests/python/test_in_place.py tests/python/test_conv.py || failed=1
exit $failed
