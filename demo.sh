#!/bin/bash
# Trains a small VGG on Fashion-MNIST, saves it and classifies some images. Does its own set-up.
#   ./demo.sh [--epochs N] [--batch N] [--device NAME]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
scripts/setup.sh
exec .venv/bin/python examples/fashion_mnist.py "$@"
