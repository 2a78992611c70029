#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs what is missing to build, test and demonstrate etch: packages of the
# distribution with apt (as root or through sudo), Python packages in .venv. Silent,
# and done in a blink, when all is there. Nothing is ever removed or upgraded.
#
#     scripts/deps.sh                  # what make deps runs
#     scripts/deps.sh build            # what `make` needs: compiler and libraries, no Python packages
#     scripts/deps.sh --print arch     # the command for a distribution (debian, ubuntu, fedora, arch), with "build" or without
#     PYTHON=... scripts/deps.sh       # another python3 than the distribution's for .venv
#
# Where there is no apt, it prints the command for the distribution instead. docs/install.md says which ones were tried.
set -eu
cd "$(dirname "$0")/.."

print=
if [ "${1-}" = --print ]; then
	print=${2?usage: scripts/deps.sh --print debian|ubuntu|fedora|arch [build]}
	shift 2
fi

# No name has a release's number in it: what "clang" or "llvm" is, is the distribution's choice.
# Build: the compiler, and the libraries that the tool links with.
DEBIAN="make pkg-config gcc g++ libc6-dev binutils libelf-dev libdw-dev liblzma-dev libbz2-dev zlib1g-dev libzydis-dev libcapstone-dev libiberty-dev libjson-c-dev libxxhash-dev libprotobuf-c-dev protobuf-c-compiler"
FEDORA="make pkgconf-pkg-config gcc gcc-c++ glibc-devel binutils elfutils-libelf-devel elfutils-devel xz-devel bzip2-devel zlib-devel zydis-devel capstone-devel binutils-devel json-c-devel xxhash-devel protobuf-c-devel protobuf-c-compiler"
ARCH="make pkgconf gcc glibc binutils libelf xz bzip2 zlib zydis capstone json-c xxhash protobuf-c"
if [ "${1-}" != build ]; then
	# Tests: the second compiler and linker with their LTO plugin (clang brings it) and sanitizers, and the programs that
	# must accept our output.
	DEBIAN="$DEBIAN clang lld llvm libclang-rt-dev elfutils gdb strace valgrind libc6-dbg libssl-dev libunwind-dev musl-tools"
	FEDORA="$FEDORA clang lld llvm compiler-rt elfutils gdb strace valgrind openssl-devel libunwind-devel musl-gcc glibc-static libstdc++-static"
	ARCH="$ARCH clang lld llvm compiler-rt elfutils gdb strace valgrind openssl libunwind musl"
	# The build systems of docs/guides, what sets the man pages, and the shells of the completions.
	DEBIAN="$DEBIAN autoconf automake cmake ccache meson ninja-build groff-base fish zsh"
	FEDORA="$FEDORA autoconf automake cmake ccache meson ninja-build groff-base fish zsh"
	ARCH="$ARCH autoconf automake cmake ccache meson ninja groff fish zsh"
	# .venv, and TLS for it; git, tcl and xz bring, generate and unpack what is tested.
	DEBIAN="$DEBIAN ca-certificates git python3 python3-venv tcl xz-utils"
	FEDORA="$FEDORA ca-certificates git python3 tcl xz"
	ARCH="$ARCH ca-certificates git python tcl xz"
fi

# The command that installs what a distribution calls these.
command_for() {
	case $1 in
	debian | ubuntu) echo "apt-get install --no-install-recommends $DEBIAN" ;;
	fedora) echo "dnf install $FEDORA" ;;
	arch) echo "pacman -S --needed $ARCH" ;;
	*) return 1 ;;
	esac
}

if [ "$print" ]; then
	command_for "$print" || { echo "deps: $print: not known; debian, ubuntu, fedora or arch" >&2; exit 2; }
	exit 0
fi

missing=
if command -v dpkg-query >/dev/null; then
	installed=" $(dpkg-query -W -f='${db:Status-Status} ${Package} ' $DEBIAN 2>/dev/null || :)"
	for p in $DEBIAN; do
		case $installed in
		*" installed $p "*) ;;
		*) missing="$missing $p" ;;
		esac
	done
else
	# Not Debian or its like: say which commands and headers are not there, install nothing.
	tools="make pkg-config gcc g++ protoc-c"
	[ "${1-}" = build ] || tools="$tools git clang ld.lld llvm-readelf eu-elflint gdb strace valgrind automake cmake meson ninja groff python3 tclsh"
	for p in $tools; do
		command -v $p >/dev/null || missing="$missing $p"
	done
	for h in gelf.h elfutils/libdw.h Zydis/Zydis.h capstone/capstone.h json-c/json.h xxhash.h libiberty/demangle.h protobuf-c/protobuf-c.h; do
		echo "#include <$h>" | cc -E - >/dev/null 2>&1 || missing="$missing $h"
	done
fi

sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
if [ -n "$missing" ]; then
	if ! command -v apt-get >/dev/null || { [ -n "$sudo" ] && ! command -v sudo >/dev/null; }; then
		echo "deps: not installed:$missing" >&2
		# The distribution, or the one that it is like.
		for system in $(. /etc/os-release 2>/dev/null && echo "${ID-} ${ID_LIKE-}"); do
			if command=$(command_for "$system"); then
				echo "deps: as root: $command" >&2
				exit 1
			fi
		done
		echo "deps: the command is known for debian, ubuntu, fedora and arch: scripts/deps.sh --print fedora" >&2
		exit 1
	fi
	echo "deps: installing packages:$missing"
	# Package lists of a fresh image are empty, those of an old one name files
	# that are gone. A refresh that fails may still leave lists that do.
	$sudo apt-get -q update || echo "deps: apt-get update failed, trying with the lists that are there" >&2
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install $missing
fi

[ "${1-}" != build ] || exit 0

# What only some releases have; where it is missing, the tests that need it are skipped. The formatting check
# needs clang-format of the release that .clang-format is for. gold left binutils for a package of its own. The pictures of
# tests/profile/test_profile.py need a browser.
optional() {
	for command in $2; do
		! command -v $command >/dev/null || return 0
	done
	command -v apt-cache >/dev/null && apt-cache show "$1" >/dev/null 2>&1 || return 0
	echo "deps: installing package: $1"
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "$1" ||
		echo "deps: no $1: tests that need it will be skipped" >&2
}
optional clang-format-14 clang-format-14
optional binutils-gold ld.gold
optional chromium-headless-shell "chromium google-chrome chromium-headless-shell"

# The stamp is a copy of the list that .venv was made from, written last.
if ! cmp -s requirements.txt .venv/requirements.installed || ! .venv/bin/python -c '' 2>/dev/null; then
	python=${PYTHON:-/usr/bin/python3}
	[ -x "$python" ] || python=$(command -v python3)
	echo "deps: installing Python packages into .venv:" $(sed -n 's/^\([^# ]*\)==/\1 /p' requirements.txt)
	rm -rf .venv
	"$python" -m venv .venv
	.venv/bin/python -m pip --disable-pip-version-check install -q --no-deps -r requirements.txt
	cp requirements.txt .venv/requirements.installed
fi
