#!/bin/sh
# Prints the folder of Apache Spark's Python package for examples/fleet/spark_fleet.py in `make test-all`; made and cached when it is missing.
# Spark needs Java 17, which tests/setup.sh does not install for it: without one, the test says so and is skipped.
set -eu
wanted="pyspark==4.3.0 py4j==0.10.9.9"
dir=${XDG_CACHE_HOME:-$HOME/.cache}/memtrace/spark
if [ "$(cat "$dir/complete" 2>/dev/null)" != "$wanted" ]; then
	echo "memtrace: fetching Apache Spark from PyPI" >&2
	rm -rf "$dir"
	mkdir -p "$dir"
	# shellcheck disable=SC2086
	python3 -m pip install -q --disable-pip-version-check --no-cache-dir --target "$dir/site" $wanted >&2
	echo "$wanted" >"$dir/complete"
fi
echo "$dir"
