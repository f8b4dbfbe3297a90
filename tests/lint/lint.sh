#!/bin/sh
# House rules that a machine can check. lint.sh BUILD FLOOR FLOOR_PRELOAD
set -u
build=$1
failed=0
bad() { echo "lint: $*"; failed=1; }

# What runs in the host must not end it, print by itself, allocate from its heap, or take the loader's lock.
forbidden='exit|_exit|_Exit|quick_exit|abort|__assert_fail|malloc|calloc|realloc|free|[a-z]*printf|__[a-z]*printf_chk|signal|sigaction|dlsym|dlopen|dladdr|system|popen'
found=$(nm -D --undefined-only "$build/libmemtrace.so" | awk '{ sub(/@.*/, "", $2); print $2 }' | grep -E -x "$forbidden")
[ -z "$found" ] || bad "libmemtrace.so calls" $found
# Files are opened, written and closed by system calls (preload/record/file.c).
forbidden='f?open(at)?(64)?|creat(64)?|close(_range)?|p?(read|write)v?(64)?|dup[23]?|fcntl(64)?|f?truncate(64)?|mkdir(at)?|access|faccessat|unlink(at)?|rename|f?stat(at)?(64)?'
found=$(nm -D --undefined-only "$build/libmemtrace.so" | awk '{ sub(/@.*/, "", $2); print $2 }' | grep -E -x "$forbidden")
[ -z "$found" ] || bad "libmemtrace.so calls functions that others define again:" $found
# It depends on the C library alone.
found=$(readelf -d "$build/libmemtrace.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v -E '^(libc\.so|ld-linux)')
[ -z "$found" ] || bad "libmemtrace.so needs" $found
# A younger C library than the floor is needed by none, nor by what `make dist` has built; see include/memtrace/old_libc.h. A sanitizer's runtime
# may need one.
case $build in
build | build-clang)
	for folder in "$build" build-aarch64; do
		for f in libmemtrace.so libcudasim.so libcudasim-nvml.so memtrace inside/memtrace; do
			[ -e "$folder/$f" ] || continue
			floor=$2
			[ $f != libmemtrace.so ] || floor=$3
			tests/lint/glibc_floor.sh "$floor" "$folder/$f" || failed=1
		done
	done ;;
esac

# A thread of the job may have a stack of 16 KiB: a function of the preload takes 1 KiB of it at most. gcc decides at the link, clang before.
frames=$(cat "$build"/libmemtrace.so.*.su "$build"/preload/*.su "$build"/preload/*/*.su 2>/dev/null)
[ -n "$frames" ] || bad "no stack usage in $build: is -fstack-usage not known to the compiler?"
found=$(printf '%s\n' "$frames" | awk -F '\t' '$2 > 1024 { print $1 " takes " $2 " bytes;" }')
[ -z "$found" ] || bad "more than 1 KiB of the stack of a thread of the job:" $found

# Every row of hooks.def is exported (one under #if may not be), and nothing else but PyTorch's hooks, the look-ups of dlsym.S and what the job calls is.
rows=$(sed -n '/^#if/,/^#endif/d; s/^\(ALLOC\|POOL\|FREE\|THEN\|ENDS\|CUSTOM\)(\([A-Za-z0-9_]*\),.*/\2/p' preload/hooks/hooks.def)
some=$(sed -n '/^#if/,/^#endif/s/^\(ALLOC\|POOL\|FREE\|THEN\|ENDS\|CUSTOM\)(\([A-Za-z0-9_]*\),.*/\2/p' preload/hooks/hooks.def)
exported=$(nm -D --defined-only "$build/libmemtrace.so" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort -u)
# What the job calls itself is declared in marks.h; NVTX calls the last one.
marks="$(sed -n 's/.*\(memtrace_[a-z_]*\)(.*/\1/p' preload/marks/marks.h) InitializeInjectionNvtx2"
missing=$(printf '%s\n' $rows $marks dlsym dlvsym dlclose dlerror | sort | comm -23 - /dev/fd/3 3<<-EOF
	$exported
	EOF
)
[ -z "$missing" ] || bad "rows of hooks.def are not exported:" $missing
extra=$(printf '%s\n' $exported | grep -v -e '^_ZN3c10' -e '^_ZN2at15sequence_number' -e '^_ZN5torch8autograd' -e '^_ZNK2at10TensorBase7grad_fn' | grep -v -x -F "$(printf '%s\n' $rows $some $marks dlsym dlvsym dlclose dlerror)")
[ -z "$extra" ] || bad "exported and no row of hooks.def:" $extra

# What may include what, names, sizes, output, format: by the table of CONTRIBUTING.md.
python3 tests/lint/layers.py || failed=1

# The project speaks of itself alone.
git grep -n -I -E '/work/|/root/' -- . ':!tests/lint/lint.sh' && bad "a machine's path"
[ $failed = 0 ] && echo "lint: clean"
exit $failed
