#!/bin/sh
# Prints the folder of pytest and of a Jupyter kernel with what runs notebooks in it, for PYTHONPATH; made and cached when it is missing.
set -eu
# shellcheck source=tests/kept.sh
. "$(dirname "$0")/kept.sh"
wanted="pytest==9.2.0 ipykernel==7.4.0 nbclient==0.11.0"
if ! is_kept inside-tests "$wanted" "pytest and Jupyter's kernel from PyPI"; then
	# shellcheck disable=SC2086
	install_packages python3 "$dir/site" $wanted
	keep "$wanted"
fi
echo "$dir/site"
