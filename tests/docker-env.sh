#!/bin/sh
# Prints the folder of Docker's engine for examples/docker.sh in `make test-all`: Debian's packages, unpacked (nothing is installed and no
# service is started); made and cached when it is missing.
set -eu
wanted="docker.io containerd runc"
dir=${XDG_CACHE_HOME:-$HOME/.cache}/memtrace/docker
if [ "$(cat "$dir/complete" 2>/dev/null)" != "$wanted" ]; then
	echo "memtrace: fetching Docker from Debian" >&2
	rm -rf "$dir"
	mkdir -p "$dir/deb"
	# shellcheck disable=SC2086
	(cd "$dir/deb" && apt-get download -qq $wanted >&2)
	for p in "$dir"/deb/*.deb; do
		dpkg-deb -x "$p" "$dir"
	done
	rm -rf "$dir/deb"
	echo "$wanted" >"$dir/complete"
fi
echo "$dir"
