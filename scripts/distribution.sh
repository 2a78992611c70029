#!/bin/bash
# SPDX-License-Identifier: MIT
# A whole distribution, rewritten in place in a root directory of its own: what its programs print before and
# after, and whether --undo gives every file back.
#
#     scripts/distribution.sh ROOT [ETCH]        # as root; ETCH: build/etch
#
# ROOT is what debootstrap has made, of any suite, with the packages that are to be tried: compilers, interpreters,
# databases; what is missing says so twice. Everything under ROOT/usr is rewritten, the C library and the dynamic linker
# too. Exit status 1 if an output or a file differs.
set -euo pipefail

case ${1-} in
-h | --help) sed -n '3,11s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
[ $# -ge 1 ] && [ -d "$1/usr/bin" ] || { echo "usage: $0 ROOT [ETCH]" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "distribution: chroot needs root" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$1" && pwd)
etch=$(realpath "${2-$here/../build/etch}")
[ -x "$etch" ] || { echo "distribution: $etch: no such program; make builds it" >&2; exit 2; }
[ "$root" != / ] || { echo "distribution: not of the system that runs" >&2; exit 2; }
out=$(mktemp -d)
trap 'for d in dev proc; do umount "$root/$d" 2>/dev/null || true; done; rm -f "$root/root/etch-tour.sh"; rm -rf "$out"' EXIT
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
cp "$here/distribution/tour.sh" "$root/root/etch-tour.sh"

hashes() { find "$root/usr" -xdev -type f -print0 | sort -z | xargs -0 sha256sum; }
tour() { chroot "$root" bash /root/etch-tour.sh 2>&1; }
differ=0
compare() { # WHAT BEFORE AFTER
	if cmp -s "$2" "$3"; then
		echo "$1: the same ($(wc -l <"$2") lines)"
	else
		differ=1
		echo "$1: differs"
		diff "$2" "$3" | head -n 20
	fi
}

hashes >"$out/files"
tour >"$out/tour"
tour >"$out/again"
compare "programs, run twice as they are" "$out/tour" "$out/again"
begin=$SECONDS
"$etch" rewrite -j "$(nproc)" "$root/usr" >"$out/said" 2>&1 || true # what is for another machine is refused
hashes >"$out/rewritten"
count=$(diff "$out/files" "$out/rewritten" | grep -c '^>' || true)
echo "rewritten: $count files in $((SECONDS - begin)) s"
[ "$count" -gt 0 ] || differ=1 # else all that follows is the same for nothing
grep -v -e ' ETCH-' -e ': note:' -e 'e_machine' -e 'debug file' -e 'not a 64-bit' "$out/said" || true
tour >"$out/tour.rewritten"
compare "programs, rewritten" "$out/tour" "$out/tour.rewritten"
"$etch" rewrite --undo -j "$(nproc)" "$root/usr" >/dev/null 2>&1 || true
hashes >"$out/undone"
compare "files, undone" "$out/files" "$out/undone"
exit $differ
