#!/bin/sh
# Prints a Python that has PyTorch VERSION with what the tests' jobs import, made and cached when it is missing:
#   python-env.sh VERSION [PYTHON]        python-env.sh 2.15, python-env.sh 2.15 3.12
# VERSION "active" takes the environment's own Python where that has a CUDA build of PyTorch, else the newest tested version.
set -eu
# shellcheck source=tests/kept.sh
. "$(dirname "$0")/kept.sh"
version=$1
python=${2:-}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/memtrace

if [ "$version" = active ]; then
	if python3 -c 'import torch; assert torch.version.cuda' 2>/dev/null; then
		command -v python3
		exit 0
	fi
	version=2.15
fi
case $version in
2.15) wanted="torch==2.15.0 numpy transformers==5.23.0"
	# The frameworks that the tests' jobs use, where they are made for this Python.
	if [ -z "$python" ]; then
		wanted="$wanted megatron-core==0.16.1 deepspeed==0.19.8 accelerate==1.15.0 peft==0.21.2 torchtitan==0.3.0 bitsandbytes==0.50.2
			lightning==2.6.6 trl==1.16.0 diffusers==0.42.1"
	fi ;;
2.11) wanted="torch==2.11.0 numpy" ;;
2.8) wanted="torch==2.8.0 numpy" ;;
2.7) wanted="torch==2.7.1 numpy" ;;
2.6) wanted="torch==2.6.0 numpy" ;;
2.5) wanted="torch==2.5.1 numpy<2.3" ;;
2.4) wanted="torch==2.4.1 numpy<2.3" ;;
2.1) wanted="torch==2.1.2 numpy<2 setuptools<81" ;;
2.0) wanted="torch==2.0.1 numpy<2 setuptools<81" ;;
*) echo "python-env.sh: PyTorch $version is not one that is tested (2.15, 2.11, 2.8, 2.7, 2.6, 2.5, 2.4, 2.1, 2.0)" >&2; exit 2 ;;
esac

# Another Python than the default one: the system's, or pyenv's.
base=python3
if [ -n "$python" ]; then
	base=
	for p in "python$python" "$HOME/.pyenv/versions/$python".*/bin/python3; do
		if "$p" -c 'import sys' 2>/dev/null; then
			base=$p
		fi
	done
	[ -n "$base" ] || { echo "python-env.sh: there is no Python $python here" >&2; exit 3; }
fi
dir=$cache/torch-$version${python:+-python-$python}
if [ "$(cat "$dir/complete" 2>/dev/null)" != "$wanted" ]; then
	mkdir -p "$cache"
	lock "$dir"
fi
# An environment that is whole says what it has; one that lacks something gets it added.
if [ "$(cat "$dir/complete" 2>/dev/null)" != "$wanted" ]; then
	echo "memtrace: making an environment with PyTorch $version in $dir (once; some GiB)" >&2
	if [ ! -e "$dir/complete" ]; then
		rm -rf "$dir"
		"$base" -m venv "$dir"
	fi
	# shellcheck disable=SC2086
	"$dir/bin/pip" install -q --disable-pip-version-check $wanted >&2
	echo "$wanted" >"$dir/complete"
fi
echo "$dir/bin/python"
