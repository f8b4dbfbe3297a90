#!/bin/sh
# make bench: what tracing costs, beside what one would use instead. Prints the bars and what was measured, with the spread.
set -eu
cd "$(dirname "$0")/../.."
tests/setup.sh
make -s -j"$(nproc)" all bench-programs
exec python3 tests/bench/bench.py "$@"
