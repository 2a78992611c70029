#!/bin/sh
# SPDX-License-Identifier: MIT
# The stress test of tests/lib/stress.c, for long: readers of every form and size
# against sets, dlopen, dlclose and fork. Stops at the first wrong read.
#
#     scripts/soak.sh [ROUNDS]      4 rounds: some ten minutes on two cores
#
# In the environment: B (build), READS (5*10^8) and SETS (5*10^5) a round,
# THREADS (4) that read. A round runs each of gcc and clang, after the object step
# and after the link step.
set -eu
cd "$(dirname "$0")/.."
B=$(cd "${B:-build}" && pwd)
rounds=${1:-4}
dir=$B/soak
mkdir -p "$dir"

build() { # compiler stage
	d=$dir/$1-$2
	rm -rf "$d"
	mkdir -p "$d"
	inc="-D_GNU_SOURCE -Ilib/include -Itests"
	lib="-L$B -letch -Wl,-rpath,$B -pthread -ldl"
	$1 -std=gnu11 -O2 -g -fPIE $inc -c -o "$d/stress.o" tests/lib/stress.c
	$1 -std=gnu11 -O2 -g -fPIC $inc -c -o "$d/plugin.o" tests/lib/stress_plugin.c
	"$B/etch" rewrite "$d/stress.o" "$d/plugin.o"
	$1 -pie -rdynamic -o "$d/stress" "$d/stress.o" $lib
	$1 -shared -o "$d/plugin.so" "$d/plugin.o" $lib
	[ "$2" = object ] || "$B/etch" rewrite "$d/stress" "$d/plugin.so"
}

for cc in gcc clang; do
	for stage in object linked; do
		build $cc $stage
	done
done
i=0
while [ "$i" -lt "$rounds" ]; do
	i=$((i + 1))
	for cc in gcc clang; do
		for stage in object linked; do
			echo "round $i of $rounds, $cc, $stage:"
			"$dir/$cc-$stage/stress" "${READS:-500000000}" "${SETS:-500000}" "${THREADS:-4}" \
				"$dir/$cc-$stage/plugin.so"
		done
	done
done
echo "soak: nothing torn, nothing stale"
