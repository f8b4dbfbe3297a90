#!/bin/sh
# Prints the folder of Ray and of Kubernetes' schemas (site/) for the examples in `make test-all`; made and cached when it is missing.
# cluster-env.sh PYTHON: the Python that imports them.
set -eu
wanted="ray==2.60.0 kubernetes-validate==1.37.0"
dir=${XDG_CACHE_HOME:-$HOME/.cache}/memtrace/clusters
if [ "$(cat "$dir/complete" 2>/dev/null)" != "$wanted $1" ]; then
	echo "memtrace: fetching Ray and Kubernetes' schemas from PyPI" >&2
	rm -rf "$dir"
	mkdir -p "$dir"
	# shellcheck disable=SC2086
	"$1" -m pip install -q --disable-pip-version-check --no-cache-dir --target "$dir/site" $wanted >&2
	echo "$wanted $1" >"$dir/complete"
fi
echo "$dir/site"
