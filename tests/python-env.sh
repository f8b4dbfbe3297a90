#!/bin/sh
# Prints a Python that has PyTorch VERSION (python-env.sh 2.15) with what the tests' jobs import, made and cached when it is missing.
# VERSION "active" takes the environment's own Python where that has a CUDA build of PyTorch, else the newest tested version.
set -eu
version=$1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/memtrace

if [ "$version" = active ]; then
	if python3 -c 'import torch; assert torch.version.cuda' 2>/dev/null; then
		command -v python3
		exit 0
	fi
	version=2.15
fi
case $version in
2.15) wanted="torch==2.15.0 numpy transformers==5.23.0" ;;
2.5) wanted="torch==2.5.1 numpy<2.3" ;;
*) echo "python-env.sh: PyTorch $version is not one that is tested (2.15, 2.5)" >&2; exit 2 ;;
esac
dir=$cache/torch-$version
if [ ! -e "$dir/complete" ]; then
	echo "memtrace: making an environment with PyTorch $version in $dir (once; some GiB)" >&2
	rm -rf "$dir"
	mkdir -p "$cache"
	python3 -m venv "$dir"
	# shellcheck disable=SC2086
	"$dir/bin/pip" install -q --disable-pip-version-check $wanted >&2
	touch "$dir/complete"
fi
echo "$dir/bin/python"
