#!/bin/sh
# make test: installs what is missing, builds, runs everything. --all: every real job of the corpora, not a sample.
set -eu
cd "$(dirname "$0")/.."
tests/setup.sh
exec python3 tests/run.py "$@"
