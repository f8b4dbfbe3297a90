#!/bin/sh
# make bench: what tracing costs, beside what one would use instead. Prints the bars and what was measured, with the spread.
set -eu
cd "$(dirname "$0")/../.."
tests/setup.sh
make -s -j"$(nproc)" all build/tests/unit/estimate/bench_estimate
mkdir -p build/bench
cc -std=gnu17 -O2 -shared -fPIC tests/bench/hook_cost.c -o build/bench/hook_cost.so
cc -std=gnu17 -O2 tests/bench/calls.c -o build/bench/calls -ldl
cc -std=gnu17 -O2 -Iinclude -Itests/unit tests/bench/make_job.c tests/unit/write_training.c tests/unit/write_trace.c -o build/bench/make_job
exec python3 tests/bench/bench.py "$@"
