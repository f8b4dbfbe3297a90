#!/bin/sh
# Prints the folder of Apache Spark's Python package for examples/fleet/spark_fleet.py in `make test-all`; made and cached when it is missing.
# Spark needs Java 17, which tests/setup.sh does not install for it: without one, the test says so and is skipped.
set -eu
# shellcheck source=tests/kept.sh
. "$(dirname "$0")/kept.sh"
wanted="pyspark==4.3.0 py4j==0.10.9.9"
if ! is_kept spark "$wanted" "Apache Spark from PyPI"; then
	# shellcheck disable=SC2086
	install_packages python3 "$dir/site" $wanted
	keep "$wanted"
fi
echo "$dir"
