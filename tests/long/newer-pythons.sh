#!/bin/sh
# Pythons that this system does not have, in ~/.cache/memtrace/pythons/VERSION, for test_pylayout: Debian's 3.14 and 3.15 with the C library they
# need, and 3.13t, a free-threaded build of Debian's source (ten minutes). Needs apt-get and the network; changes nothing else on the system.
set -eu
to=$HOME/.cache/memtrace/pythons
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$to" "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$work/source"
for suite in sid trixie; do
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main"
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $suite main"
done >"$work/sources.list"
apt() {
	apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists="$work/lists" \
		-o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@"
}
apt update
for version in 3.14 3.15; do
	root=$to/$version
	[ -x "$root/bin/python3" ] && continue
	rm -rf "$work/debs"/*
	(cd "$work/debs" && apt download -t sid libc6 zlib1g libexpat1 libffi8 python$version-minimal libpython$version-minimal \
		libpython$version-stdlib libpython$version-dev)
	for deb in "$work/debs"/*.deb; do dpkg -x "$deb" "$root"; done
	mkdir -p "$root/bin"
	cat >"$root/bin/python3" <<-EOF
		#!/bin/sh
		exec "$root/usr/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" "$root/usr/bin/python$version" "\$@"
	EOF
	chmod +x "$root/bin/python3"
done
[ -x "$to/3.13t/bin/python3" ] || {
	(cd "$work/source" && apt --download-only source -t trixie python3.13)
	cd "$work/source" && tar xf python3.13_*.orig.tar.xz --strip-components=1
	./configure -q --disable-gil --prefix="$to/3.13t" --without-ensurepip CFLAGS=-O1
	make -s -j2 && make -s install
} >/dev/null
ls "$to"
