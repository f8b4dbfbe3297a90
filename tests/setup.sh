#!/bin/sh
# Installs what building and testing need, where it is missing: Debian packages, and the CUDA headers (from PyPI, where there is no
# toolkit). Everything else that tests use is in virtual environments of their own: tests/python-env.sh.
# setup.sh check: also what `make check` runs.
set -eu
cache=${XDG_CACHE_HOME:-$HOME/.cache}/memtrace
packages="gcc make libc6-dev libjansson-dev libyaml-dev uthash-dev libcmocka-dev python3 python3-venv python3-pip"
[ "${1:-}" = build ] || packages="$packages clang-format" # `make lint`, which the tests run
[ "${1:-}" != check ] || packages="$packages clang clang-tidy cppcheck"

missing=
if ! command -v apt-get >/dev/null; then
	echo "memtrace: there is no apt-get here; install gcc, make, and the development files of jansson, libyaml and uthash" \
		"(Fedora: jansson-devel libyaml-devel uthash-devel)" >&2
	packages=
fi
for p in $packages; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
if [ -n "$missing" ]; then
	as_root=
	[ "$(id -u)" = 0 ] || as_root=sudo
	echo "memtrace: installing$missing" >&2
	$as_root apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >&2
fi

if [ ! -e "${CUDA_HOME:-/usr/local/cuda}/include/cuda.h" ] && [ ! -e "$cache/cuda-headers/include/cuda.h" ]; then
	echo "memtrace: fetching the CUDA headers from PyPI" >&2
	rm -rf "$cache/cuda-headers"
	mkdir -p "$cache/cuda-headers"
	python3 -m venv "$cache/cuda-headers/venv"
	"$cache/cuda-headers/venv/bin/pip" install -q --no-deps --target "$cache/cuda-headers/wheels" \
		'nvidia-cuda-runtime>=13,<14' 'nvidia-cuda-crt>=13,<14' >&2
	ln -s "$(dirname "$(find "$cache/cuda-headers/wheels" -name cuda.h | head -n 1)")" "$cache/cuda-headers/include"
fi
