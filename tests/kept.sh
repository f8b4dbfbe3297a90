# shellcheck shell=sh
# For scripts that print a folder which is made once and kept; to be read with `.`.

# lock FOLDER: waits for another process that makes it, if one does; the lock is held until this script ends.
lock() {
	exec 9>"$1.lock"
	flock 9
}

# is_kept NAME WANTED WHAT: sets `dir`, the folder NAME of the cache. Returns 1 after a line that says that WHAT is fetched if the folder does not
# have WANTED; it is empty then, and keep() follows when it is filled.
is_kept() {
	dir=${XDG_CACHE_HOME:-$HOME/.cache}/memtrace/$1
	[ "$(cat "$dir/complete" 2>/dev/null)" != "$2" ] || return 0
	mkdir -p "${dir%/*}"
	lock "$dir"
	[ "$(cat "$dir/complete" 2>/dev/null)" != "$2" ] || return 0
	echo "memtrace: fetching $3" >&2
	rm -rf "$dir"
	mkdir -p "$dir"
	return 1
}

# keep WANTED: the folder is complete.
keep() {
	echo "$1" >"$dir/complete"
}

# install_packages PYTHON FOLDER PACKAGE...: from PyPI.
install_packages() {
	python=$1 folder=$2
	shift 2
	"$python" -m pip install -q --disable-pip-version-check --no-cache-dir --target "$folder" "$@" >&2
}

# unpack_debian FOLDER PACKAGE...: Debian's packages, of which nothing is installed or started.
unpack_debian() {
	folder=$1
	shift
	mkdir -p "$dir/deb"
	(cd "$dir/deb" && apt-get download -qq "$@" >&2)
	for package in "$dir"/deb/*.deb; do
		dpkg-deb -x "$package" "$folder"
	done
	rm -rf "$dir/deb"
}
