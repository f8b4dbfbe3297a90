#!/bin/sh
# Prints a folder for PYTHONPATH with flash-linear-attention's operations, which Megatron-core's gated delta nets import; made and cached when it is missing.
set -eu
# shellcheck source=tests/kept.sh
. "$(dirname "$0")/kept.sh"
wanted="fla-core==0.6.0"
if ! is_kept fla "$wanted" "flash-linear-attention"; then
	install_packages python3 "$dir/site" --no-deps $wanted
	keep "$wanted"
fi
echo "$dir/site"
