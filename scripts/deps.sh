#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs what is missing to build, test and demonstrate etch: Debian packages
# with apt (as root or through sudo), Python packages in .venv. Silent, and done
# in a blink, when all is there. Nothing is ever removed or upgraded.
#
#     scripts/deps.sh            # what make deps runs
#     scripts/deps.sh build      # what `make` needs: compiler and libraries, no Python packages
#     PYTHON=... scripts/deps.sh # another python3 than Debian's for .venv
set -eu
cd "$(dirname "$0")/.."

# Build: the compiler, and the libraries that the tool links with.
PACKAGES="make pkg-config gcc g++ libc6-dev binutils libelf-dev libdw-dev liblzma-dev libbz2-dev zlib1g-dev libzydis-dev libcapstone-dev libiberty-dev libjson-c-dev libxxhash-dev libprotobuf-c-dev protobuf-c-compiler"
if [ "${1-}" != build ]; then
# Tests: the second compiler and linker with their LTO plugin and sanitizers, and
# the programs that must accept our output.
PACKAGES="$PACKAGES clang-14 clang clang-format-14 lld llvm-14 llvm-14-linker-tools libclang-rt-14-dev elfutils gdb strace valgrind libc6-dbg libssl-dev libunwind-dev musl-tools"
# The build systems of docs/guides, what sets the man pages, and the shells of the completions.
PACKAGES="$PACKAGES autoconf automake cmake ccache meson ninja-build groff-base fish zsh"
# .venv, and TLS for it; tcl generates SQLite's amalgamation from its source.
PACKAGES="$PACKAGES ca-certificates python3 python3-venv tcl"
fi

missing=
if command -v dpkg-query >/dev/null; then
	installed=" $(dpkg-query -W -f='${db:Status-Status} ${Package} ' $PACKAGES 2>/dev/null || :)"
	for p in $PACKAGES; do
		case $installed in
		*" installed $p "*) ;;
		*) missing="$missing $p" ;;
		esac
	done
else
	# Not Debian: say which commands and headers are not there, install nothing.
	tools="make pkg-config gcc g++ protoc-c"
	[ "${1-}" = build ] || tools="$tools clang clang-format-14 ld.lld eu-elflint gdb strace valgrind automake cmake meson ninja groff python3 tclsh"
	for p in $tools; do
		command -v $p >/dev/null || missing="$missing $p"
	done
	for h in gelf.h elfutils/libdw.h Zydis/Zydis.h capstone/capstone.h json-c/json.h xxhash.h libiberty/demangle.h protobuf-c/protobuf-c.h; do
		echo "#include <$h>" | cc -E - >/dev/null 2>&1 || missing="$missing $h"
	done
fi

if [ -n "$missing" ]; then
	sudo=
	[ "$(id -u)" = 0 ] || sudo=sudo
	if ! command -v apt-get >/dev/null || { [ -n "$sudo" ] && ! command -v sudo >/dev/null; }; then
		echo "deps: not installed:$missing" >&2
		echo "deps: etch is built and tested on Debian 12; there, as root: apt-get install$missing" >&2
		exit 1
	fi
	echo "deps: installing Debian packages:$missing"
	# Package lists of a fresh image are empty, those of an old one name files
	# that are gone. A refresh that fails may still leave lists that do.
	$sudo apt-get -q update || echo "deps: apt-get update failed, trying with the lists that are there" >&2
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install $missing
fi

# The browser in which tests/test_profile.py opens pictures; where there is none, these tests are skipped.
if [ "${1-}" != build ] && ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null &&
	! command -v chromium-headless-shell >/dev/null && apt-cache show chromium-headless-shell >/dev/null 2>&1; then
	echo "deps: installing Debian package: chromium-headless-shell"
	sudo=
	[ "$(id -u)" = 0 ] || sudo=sudo
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install chromium-headless-shell ||
		echo "deps: no browser: tests that need one will be skipped" >&2
fi

[ "${1-}" != build ] || exit 0

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
