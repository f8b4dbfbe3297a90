#!/bin/sh
# Prints the folder of Debian's libraries for aarch64, as archives (lib/) with their headers (include/), for a cross-build; fetched and cached
# when they are missing.
set -eu
wanted="libjansson-dev libyaml-dev zlib1g-dev libprotobuf-c-dev libncurses-dev"
dir=${XDG_CACHE_HOME:-$HOME/.cache}/memtrace/aarch64-libraries
if [ "$(cat "$dir/complete" 2>/dev/null)" != "$wanted" ]; then
	command -v mmdebstrap >/dev/null || { echo "memtrace: no mmdebstrap here, which fetches the libraries for aarch64" >&2; exit 1; }
	echo "memtrace: fetching the libraries for aarch64 from Debian" >&2
	rm -rf "$dir"
	mkdir -p "$dir/lib" "$dir/include"
	# shellcheck disable=SC2086,SC2154
	mmdebstrap -q --variant=extract --architectures=arm64 --include="$(echo $wanted | tr ' ' ,)" bookworm "$dir/unpacked" >&2
	# The C library and its headers are those of the cross-compiler.
	for name in jansson yaml z protobuf-c ncursesw tinfo; do
		mv "$dir/unpacked/usr/lib/aarch64-linux-gnu/lib$name.a" "$dir/lib/"
	done
	for name in jansson.h jansson_config.h yaml.h zlib.h zconf.h protobuf-c curses.h ncurses_dll.h unctrl.h; do
		mv "$dir/unpacked/usr/include/$name" "$dir/include/"
	done
	cp /usr/include/uthash.h "$dir/include/"
	rm -rf "$dir/unpacked"
	echo "$wanted" >"$dir/complete"
fi
echo "$dir"
