#!/bin/sh
# Prints a folder for PYTHONPATH with what some of transformers' models import beside PyTorch: timm's backbones, the matching of SciPy; made and cached when it is missing.
set -eu
# shellcheck source=tests/kept.sh
. "$(dirname "$0")/kept.sh"
wanted="torchvision==0.29.2 timm==1.0.31 scipy==1.17.1"
if ! is_kept models-packages "$wanted" "timm and SciPy"; then
	# shellcheck disable=SC2086
	install_packages "$("$(dirname "$0")/python-env.sh" 2.15)" "$dir/site" --no-deps $wanted
	keep "$wanted"
fi
echo "$dir/site"
