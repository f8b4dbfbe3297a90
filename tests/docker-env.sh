#!/bin/sh
# Prints the folder of Docker's engine for examples/docker.sh in `make test-all`: Debian's packages, unpacked (nothing is installed and no
# service is started); made and cached when it is missing.
set -eu
# shellcheck source=tests/kept.sh
. "$(dirname "$0")/kept.sh"
wanted="docker.io containerd runc"
if ! is_kept docker "$wanted" "Docker from Debian"; then
	# shellcheck disable=SC2086
	unpack_debian "$dir" $wanted
	keep "$wanted"
fi
echo "$dir"
