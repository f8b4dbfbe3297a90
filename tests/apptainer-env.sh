#!/bin/sh
# Prints the root of a system with Apptainer in it, for examples/apptainer.sh in `make test-all`; made and cached when it is missing (3 minutes,
# 270 MiB). It is Debian's sid, the only release with Apptainer; root and mmdebstrap make it.
set -eu
# shellcheck source=tests/kept.sh
. "$(dirname "$0")/kept.sh"
wanted="apptainer in sid"
if ! is_kept apptainer "$wanted" "Apptainer from Debian"; then
	root=$dir/root
	# A mirror of sid may be older than the week for which it is signed.
	mmdebstrap -q --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' --include=apptainer sid "$root" >&2
	# Root in a container, as here, has not all capabilities to give away.
	sed -i 's/^root default capabilities = .*/root default capabilities = no/' "$root/etc/apptainer/apptainer.conf"
	touch "$root/etc/hosts"
	# --nv takes what the loader's cache lists; the simulated device is mounted over this library of no content.
	${CC:-cc} -shared -nostdlib -Wl,-soname,libcuda.so.1 -x c /dev/null -o "$root/usr/lib/x86_64-linux-gnu/libcuda.so.1"
	chroot "$root" ldconfig
	keep "$wanted"
fi
echo "$dir/root"
