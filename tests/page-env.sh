#!/bin/sh
# Prints the folder of packages with playwright and axe, which drive the browser of the page's tests; made and cached when it is missing.
# The browser is Debian's: playwright's own is not fetched.
set -eu
wanted="playwright==1.65.2 axe-playwright-python==0.1.8"
dir=${XDG_CACHE_HOME:-$HOME/.cache}/memtrace/page-tests
if [ "$(cat "$dir/complete" 2>/dev/null)" != "$wanted" ]; then
	echo "memtrace: fetching what drives the browser of the page's tests from PyPI" >&2
	rm -rf "$dir"
	# shellcheck disable=SC2086
	python3 -m pip install -q --disable-pip-version-check --target "$dir" $wanted >&2
	echo "$wanted" >"$dir/complete"
fi
echo "$dir"
