#!/bin/sh
# Does FILE load with glibc FLOOR? Else: what it has of a younger one. glibc_floor.sh FLOOR FILE
set -u
status=0
needs=$(readelf -VW "$2" | sed -n '/^Version needs/,$s/.*Name: \(GLIBC_[^ ]*\).*/\1/p' | sort -u) || exit 2
for version in $needs; do
	case $version in
	GLIBC_[0-9]*)
		[ "$(printf '%s\n' "${version#GLIBC_}" "$1" | sort -V | tail -n 1)" != "$1" ] || continue ;;
	esac
	symbols=$(readelf -W --dyn-syms "$2" | awk '$7 == "UND" { print $8 }' | sed -n "s/@$version\$//p" | tr '\n' ' ')
	echo "$2 needs $version, not $1: ${symbols:-no symbol, the linker's own}"
	status=1
done
exit $status
