#!/bin/sh
# Prints the folder of packages with playwright and axe, which drive the browser of the page's tests; made and cached when it is missing.
# The browser is Debian's: playwright's own is not fetched.
set -eu
# shellcheck source=tests/kept.sh
. "$(dirname "$0")/kept.sh"
wanted="playwright==1.65.2 axe-playwright-python==0.1.8"
if ! is_kept page-tests "$wanted" "what drives the browser of the page's tests from PyPI"; then
	# shellcheck disable=SC2086
	install_packages python3 "$dir" $wanted
	keep "$wanted"
fi
echo "$dir"
