#!/bin/bash
# Trains a small network on Fashion-MNIST and prints its accuracy. Does its own set-up.
#   ./demo.sh [--epochs N] [--batch N]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
scripts/setup.sh
exec .venv/bin/python examples/fashion_mnist.py "$@"
