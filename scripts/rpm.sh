#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes rpm packages of the tree, in B/rpm: what `make rpm` runs. Needs rpmbuild and the packages of
# `scripts/deps.sh build`, or what another distribution calls them: that they are there is seen by make, not by rpm,
# which does not know of those that another package manager has installed.
#
#     scripts/rpm.sh [B]         # B: the build folder, build by default
#     DEBFULLNAME=... DEBEMAIL=... scripts/rpm.sh    # the packager
#
# All times are those of the last commit, all paths are mapped away, as in scripts/deb.sh.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "${1-build}/rpm"
out=$(cd "${1-build}/rpm" && pwd)
version=$(sed -n 's/^VERSION *:= *//p' Makefile)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
command -v rpmbuild >/dev/null || { echo "rpm: rpmbuild is missing: apt install rpm, or dnf install rpm-build" >&2; exit 2; }
capstone=$(printf '#include <capstone/capstone.h>\nCS_API_MAJOR' | ${CC-cc} -E -P - | tail -1)

rm -rf "$out"
mkdir -p "$out/source" "$out/work"
git ls-files -z Makefile LICENSE README.md CHANGELOG.md tool lib docs | xargs -0 tar -cf - | tar -C "$out/source" -xf -
rpmbuild -bb --nodeps --define "_topdir $out/work" --define "_rpmdir $out" --define "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
	--define "version $version" --define "source $out/source" --define "capstone_name libcapstone.so.$capstone" \
	--define "maintainer ${DEBFULLNAME-etch contributors} <${DEBEMAIL-etch@example.org}>" \
	--define "date $(LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y')" \
	--define "_buildhost localhost" --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
	scripts/rpm/etch.spec >"$out/log" 2>&1 || {
	tail -20 "$out/log" >&2
	echo "rpm: rpmbuild failed; see $out/log" >&2
	exit 1
}
rm -rf "$out/source" "$out/work"
echo "packages in $out:"
cd "$out"
ls -- *.rpm
