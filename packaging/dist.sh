#!/bin/sh
# make dist: build/dist/memtrace_VERSION_ARCH.deb and build/dist/memtrace-VERSION-*.whl. dist.sh VERSION [deb] [wheel] [aarch64]
#
# The .deb takes Debian's libraries. A wheel has its libraries inside the command and needs the C library alone: that of FLOOR in the Makefile,
# or a newer one. It puts the command into the folder of programs, and what the command looks for in ../lib/memtrace there.
set -eu
cd "$(dirname "$0")/.."
version=$1
shift
parts=" ${*:-deb wheel aarch64} "
out=build/dist
rm -rf $out
mkdir -p $out
tools=$(packaging/tools.sh)
# The files' times, so that the same sources give the same packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
asked() { case $parts in *" $1 "*) ;; *) return 1 ;; esac; }

# stage FOLDER MAKE-ARGUMENTS...: installs there, without what only a debugger reads.
stage() {
	to=$1
	shift
	make -s -j"$(nproc)" install DESTDIR="$PWD/$to" PYTHONDIR=/python "$@"
	for f in "$to"/usr/bin/memtrace "$to"/usr/lib/memtrace/*.so; do
		"${strip:-strip}" --strip-unneeded --remove-section=.comment --remove-section=.note "$f"
	done
}

# wheel MACHINE MAKE-ARGUMENTS...
wheel() {
	machine=$1
	shift
	tree=$out/wheel-$machine
	stage $out/stage PREFIX=/usr "$@"
	data=$tree/memtrace-$version.data
	info=$tree/memtrace-$version.dist-info
	mkdir -p "$data/scripts" "$data/data" "$info/licenses"
	cp $out/stage/usr/bin/memtrace "$data/scripts/"
	cp -r $out/stage/usr/lib $out/stage/usr/share "$data/data/"
	[ ! -d $out/stage/python/memtrace ] || cp -r $out/stage/python/memtrace "$tree/"
	cp packaging/wheel/entry_points.txt "$info/"
	cp LICENSE "$info/licenses/"
	for package in libjansson4 libyaml-0-2 zlib1g libprotobuf-c1 libncursesw6 uthash-dev; do # they are inside the command
		cp "/usr/share/doc/$package/copyright" "$info/licenses/$package"
	done
	sed "s/@VERSION@/$version/" packaging/wheel/METADATA | cat - README.md >"$info/METADATA"
	# 2_27 and 2_28: installers know manylinux_2_28, and systems with 2.27 may take it too.
	printf 'Wheel-Version: 1.0\nGenerator: memtrace\nRoot-Is-Purelib: false\nTag: py3-none-manylinux_2_27_%s\nTag: py3-none-manylinux_2_28_%s\n' \
		"$machine" "$machine" >"$info/WHEEL"
	"$tools/bin/wheel" pack -d $out "$tree" >/dev/null
	rm -rf "$tree" $out/stage
}

deb() {
	arch=$(dpkg --print-architecture)
	tree=$out/deb
	stage $tree PREFIX=/usr INSTALLED=build/shared/memtrace
	mkdir -p $tree/DEBIAN $tree/usr/share/doc/memtrace $tree/usr/share/zsh/vendor-completions
	mv $tree/usr/share/zsh/site-functions/_memtrace $tree/usr/share/zsh/vendor-completions/
	rmdir $tree/usr/share/zsh/site-functions
	if [ -d $tree/python ]; then
		mkdir -p $tree/usr/lib/python3
		mv $tree/python $tree/usr/lib/python3/dist-packages
	fi
	install -m 755 packaging/debian/prerm $tree/DEBIAN/
	cp packaging/debian/copyright $tree/usr/share/doc/memtrace/
	changed=$(date -R -u -d "@$SOURCE_DATE_EPOCH")
	sed -e "s/@VERSION@/$version/" -e "s/@DATE@/$changed/" packaging/debian/changelog | gzip -9n >$tree/usr/share/doc/memtrace/changelog.gz
	gzip -9n $tree/usr/share/man/man*/*
	chmod -R u=rwX,go=rX $tree
	# What the linker was given, as Debian's packages with their versions.
	mkdir -p $out/shlibs/debian
	: >$out/shlibs/debian/control
	depends=$(cd $out/shlibs && dpkg-shlibdeps -O ../deb/usr/bin/memtrace ../deb/usr/lib/memtrace/*.so -l../deb/usr/lib/memtrace 2>/dev/null |
		sed -n 's/^shlibs:Depends=//p')
	[ -n "$depends" ] || { echo "dist: dpkg-shlibdeps found no dependencies" >&2; exit 1; }
	size=$(du -sk --exclude=DEBIAN $tree | cut -f 1)
	sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" -e "s/@SIZE@/$size/" -e "s/@DEPENDS@/$depends/" packaging/debian/control >$tree/DEBIAN/control
	(cd $tree && find usr -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
	dpkg-deb --root-owner-group -Zxz --build $tree "$out/memtrace_${version}_$arch.deb" >/dev/null
	rm -rf $tree $out/shlibs
}

if asked deb && command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null; then
	deb
elif asked deb; then
	echo "dist: no .deb: dpkg-deb and dpkg-shlibdeps (dpkg-dev) are not here" >&2
fi
asked wheel && wheel "$(uname -m)" INSTALLED=build/inside/memtrace
cross=aarch64-linux-gnu-
if asked aarch64 && [ "$(uname -m)" = x86_64 ] && command -v ${cross}gcc >/dev/null && libraries=$(packaging/aarch64_libraries.sh); then
	strip=${cross}strip
	wheel aarch64 BUILD=build-aarch64 CC="${CROSS_CC:-${cross}gcc} -idirafter $libraries/include -L$libraries/lib" \
		INSTALLED=build-aarch64/inside/memtrace COMPLETION_OF=build/memtrace
elif asked aarch64; then
	echo "dist: no wheel for aarch64: that needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and mmdebstrap on x86-64" >&2
fi
ls -l $out | awk 'NR > 1 { print $5, "'$out/'" $9 }'
