#!/bin/sh
# Prints the folder of Ray and of Kubernetes' schemas (site/) for the examples in `make test-all`; made and cached when it is missing.
# cluster-env.sh PYTHON: the Python that imports them.
set -eu
# shellcheck source=tests/kept.sh
. "$(dirname "$0")/kept.sh"
wanted="ray==2.60.0 kubernetes-validate==1.37.0"
if ! is_kept clusters "$wanted $1" "Ray and Kubernetes' schemas from PyPI"; then
	# shellcheck disable=SC2086
	install_packages "$1" "$dir/site" $wanted
	keep "$wanted $1"
fi
echo "$dir/site"
