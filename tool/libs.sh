#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the libraries that the tool is linked with, as options for the compiler.
#
#     tool/libs.sh "cc" OBJECT...            # archives where the tool links with them, shared libraries otherwise
#     tool/libs.sh --shared                  # shared libraries: for packages of a distribution
#     tool/libs.sh --static "cc" OBJECT...   # archives only; an error where the tool does not link with them
#
# Archives are preferred: the tool is run once for each object, and each shared library costs a process 0.1 ms. What an
# archive needs in turn differs between releases (zstd as of elfutils 0.189), so pkg-config is asked for the closure. A
# closure may be incomplete: libelf.a of Debian 13 needs functions of libeu.a, which the distribution does not have. So the
# tool itself is linked, and where that fails, the library is a shared one.
set -eu
mode=mixed
case ${1-} in
--shared | --static) mode=${1#--}; shift ;;
esac
# Packages of pkg-config and libraries. libdw and libelf are of one kind: libdw uses what libelf does not export. zlib comes
# first: elfutils 0.196 has a crc32() in libelf.a, which would come beside the one that the tool uses in libz.a.
groups="zlib:z libdw,libelf:dw,elf json-c:json-c libxxhash:xxhash libprotobuf-c:protobuf-c"
# libiberty exists as an archive only. libm is needed in builds without optimization.
always="-l:libiberty.a -lm"
if [ $mode = shared ]; then
	echo "-ldw -lelf -ljson-c -lxxhash -lprotobuf-c -lz -lZydis $always"
	exit 0
fi
[ $# -gt 1 ] || { echo 'usage: tool/libs.sh [--shared | --static] "COMPILER [OPTION]..." OBJECT...' >&2; exit 2; }
cc=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

shared_of() {
	for name in $(echo "${1#*:}" | tr , ' '); do
		printf ' -l%s' "$name"
	done
}

# The static closure of a group: archives where the compiler finds them.
archives_of() {
	pkg-config --static --libs $(echo "${1%%:*}" | tr , ' ') 2>/dev/null >"$folder/closure" || { shared_of "$1"; return; }
	for option in $(cat "$folder/closure"); do
		archive=lib${option#-l}.a
		case $option in
		-lm | -lc | -ldl | -lpthread | -lrt | -pthread) ;; # always there, as the C library is
		-l*) [ ! -f "$($cc -print-file-name="$archive")" ] || option=-l:$archive ;;
		esac
		printf ' %s' "$option"
	done
}

# link LIBRARIES OBJECT...: does the tool link with these?
link() {
	libraries=$1
	shift
	$cc $([ $mode != static ] || echo -static) -o "$folder/probe" "$@" $libraries $zydis $always >"$folder/why" 2>&1
}

if [ $mode = static ]; then
	groups="capstone:capstone $groups"
	zydis= # among the objects
else
	zydis=-lZydis
fi
all=
for group in $groups; do
	all="$all$(archives_of $group)"
done
if ! link "$all" "$@"; then
	if [ $mode = static ]; then
		echo "libs.sh: the tool does not link with the archives of this system:" >&2
		head -n 6 "$folder/why" >&2
		exit 1
	fi
	# One after the other, beside shared libraries for those that come later.
	all= rest=
	for group in $groups; do
		rest="$rest$(shared_of $group)"
	done
	link "$rest" "$@" || { cat "$folder/why" >&2; exit 1; }
	for group in $groups; do
		rest=${rest#"$(shared_of $group)"}
		archives=$(archives_of $group)
		if link "$all$archives$rest" "$@"; then
			all="$all$archives"
		else
			all="$all$(shared_of $group)"
		fi
	done
fi
echo $all $zydis $always
