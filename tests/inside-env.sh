#!/bin/sh
# Prints the folder of pytest and of a Jupyter kernel with what runs notebooks in it, for PYTHONPATH; made and cached when it is missing.
set -eu
wanted="pytest==9.2.0 ipykernel==7.4.0 nbclient==0.11.0"
dir=${XDG_CACHE_HOME:-$HOME/.cache}/memtrace/inside-tests
if [ "$(cat "$dir/complete" 2>/dev/null)" != "$wanted" ]; then
	echo "memtrace: fetching pytest and Jupyter's kernel from PyPI" >&2
	rm -rf "$dir"
	mkdir -p "$dir"
	# shellcheck disable=SC2086
	python3 -m pip install -q --disable-pip-version-check --target "$dir/site" $wanted >&2
	echo "$wanted" >"$dir/complete"
fi
echo "$dir/site"
