#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes Debian packages of the tree, in B/deb: what `make deb` runs. Needs debhelper and the packages of
# `scripts/deps.sh build`.
#
#     scripts/deb.sh [B]         # B: the build folder, build by default
#     DEBFULLNAME=... DEBEMAIL=... scripts/deb.sh    # the maintainer, as of dch(1)
#
# The same tree gives the same bytes: all times are those of the last commit, all paths are mapped away. debian/ is made
# from scripts/deb, and exists in B only. B/deb/other-releases has etch for Debian's releases with other libraries.
set -eu
cd "$(dirname "$0")/.."
out=${1-build}/deb
maintainer="${DEBFULLNAME-etch contributors} <${DEBEMAIL-etch@example.org}>" # dch(1)
version=$(sed -n 's/^VERSION *:= *//p' Makefile)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
command -v dh >/dev/null || { echo "deb: dh is missing: apt install debhelper" >&2; exit 2; }

# The source of what etch-static links, beside Debian's archives; without it, for lack of a network, that package is left out.
ZYDIS=${ZYDIS-$(scripts/fetch.py zydis || :)}
export ZYDIS

rm -rf "$out"
mkdir -p "$out/etch-$version"
# Nor is it made where libzydis-dev is of another version than that source, or where the archives do not suffice
# (tool/libs.sh): a program that opens files by libelf and libdw shows it.
zydis_version() { tr -s ' ' | grep 'define ZYDIS_VERSION '; }
if [ "$ZYDIS" ] && [ "$(echo '#include <Zydis/Zydis.h>' | cc -E -dM - | zydis_version)" != "$(zydis_version <"$ZYDIS/include/Zydis/Zydis.h")" ]; then
	echo "deb: libzydis-dev is of another version than $ZYDIS" >&2
	ZYDIS=
fi
if [ "$ZYDIS" ]; then
	cat >"$out/probe.c" <<-END
		#include <elfutils/libdwfl.h>
		#include <libelf.h>
		int main(void)
		{
			return dwfl_begin(0) || dwarf_begin(0, DWARF_C_READ) || elf_compress(0, 0, 0) || elf_update(elf_begin(0, ELF_C_READ, 0), ELF_C_NULL);
		}
	END
	cc -c -o "$out/probe.o" "$out/probe.c"
	if ! why=$(tool/libs.sh --static cc "$out/probe.o" 2>&1); then
		echo "$why" >&2
		ZYDIS=
	fi
	rm "$out/probe.c" "$out/probe.o"
fi
git ls-files -z Makefile LICENSE README.md CHANGELOG.md tool lib docs | xargs -0 tar -cf - | tar -C "$out/etch-$version" -xf -
cp -r scripts/deb "$out/etch-$version/debian"
cd "$out/etch-$version"
sed -i "s/^Maintainer: .*/Maintainer: $maintainer/" debian/control
if [ -z "$ZYDIS" ]; then
	echo "deb: no source of zydis that fits, or no archives to link with it: etch-static is left out" >&2
	sed -i '/^Package: etch-static$/,/^$/d' debian/control
	rm debian/etch-static.*
fi
mkdir debian/source
echo '3.0 (native)' >debian/source/format
cat >debian/changelog <<CHANGELOG
etch ($version) unstable; urgency=medium

  * Built from the tree; its changes are in changelog.gz.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGELOG
cat >debian/copyright <<COPYRIGHT
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
$(sed -n 's/^Copyright (c) /Copyright: /p' LICENSE)
License: Expat
$(sed '1,/^Copyright/d; s/^$/./; s/^/ /' LICENSE | sed '1{/^ \.$/d}')
COPYRIGHT
dpkg-buildpackage --build=binary --unsigned-changes --no-check-builddeps >../log 2>&1 || {
	tail -20 ../log >&2
	echo "deb: dpkg-buildpackage failed; see $out/log" >&2
	exit 1
}
cd ..
rm -rf "etch-$version"
# `apt install ./etch*.deb` has to do: what cannot be beside etch, or is for debuggers, lies apart.
mkdir debug other-releases
mv -- *-dbgsym_*.deb debug
[ -z "$ZYDIS" ] || mv etch-static_*.deb other-releases
echo "packages in $out:"
ls -- *.deb */*.deb
