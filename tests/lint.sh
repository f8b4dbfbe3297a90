#!/bin/sh
# House rules that a machine can check. lint.sh BUILD
set -u
build=$1
failed=0
bad() { echo "lint: $*"; failed=1; }

# What runs in the host must not end it, print by itself, allocate from its heap, or take the loader's lock.
forbidden='exit|_exit|_Exit|quick_exit|abort|__assert_fail|malloc|calloc|realloc|free|[a-z]*printf|__[a-z]*printf_chk|signal|sigaction|dlsym|dlopen|dladdr|system|popen'
found=$(nm -D --undefined-only "$build/libmemtrace.so" | awk '{ sub(/@.*/, "", $2); print $2 }' | grep -E -x "$forbidden")
[ -z "$found" ] || bad "libmemtrace.so calls" $found
# It depends on the C library alone.
found=$(readelf -d "$build/libmemtrace.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v -E '^(libc\.so|libpthread\.so|ld-linux)')
[ -z "$found" ] || bad "libmemtrace.so needs" $found

# Every row of hooks.def is exported, and nothing else but PyTorch's hooks is.
rows=$(sed -n 's/^\(ALLOC\|POOL\|FREE\)(\([A-Za-z0-9_]*\),.*/\2/p' preload/hooks.def | sort)
exported=$(nm -D --defined-only "$build/libmemtrace.so" | awk '{ print $3 }' | grep -v '^_ZN3c10' | sort)
[ "$rows" = "$exported" ] || bad "exported functions differ from hooks.def"

# Modules: the preload never sees the analyzer, the analyzer sees of the preload only its tables, the model and renderers no trace.
grep -ln 'include.*analyzer' preload/*.[ch] && bad "preload includes the analyzer"
grep -n '#include "\(\.\./\)*preload/.*\.h"' analyzer -r && bad "analyzer includes the preload's code"

# Size: files above 500 lines, functions above 60.
for f in $(git ls-files '*.c' '*.h' '*.py' '*.sh' 2>/dev/null); do
	n=$(wc -l <"$f")
	[ "$n" -le 550 ] || bad "$f has $n lines (about 500 at most)"
done
for f in $(git ls-files '*.c'); do
	awk -v f="$f" '/^{/ { start = NR } /^}/ { if (start && NR - start > 66) { printf "lint: %s:%d: a function of %d lines (60 at most)\n", f, start, NR - start - 1; bad = 1 } start = 0 } END { exit bad }' "$f" || failed=1
done

# The project speaks of itself alone.
git grep -n -I -E '/work/|/root/' -- . ':!tests/lint.sh' && bad "a machine's path"
[ $failed = 0 ] && echo "lint: clean"
exit $failed
