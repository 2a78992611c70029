#!/bin/sh
# SPDX-License-Identifier: MIT
# The stress tests, for long: tests/lib/stress.c, readers of every form and size
# against sets, dlopen, dlclose and fork; tests/pv/stress.c, callers through every form
# of site against the same, with signals and walks of the stack inside; random programs
# with ops objects. Before them, once, copies with a fault at every byte and at all pairs
# of alignments, and with pages that go at every instruction; and the tool, killed before
# every system call, and each call failing with every error. Stops at the first that goes wrong.
#
#     scripts/soak.sh [ROUNDS]      4 rounds: some twenty minutes on two cores
#
# In the environment: B (build), READS (5*10^8), SETS (5*10^5), CALLS (10^8), CALL_SETS
# (10^5) and PROGRAMS (50) a round, THREADS (4) that read or call, SEED of the random
# programs (the time), COPIES (1): a fault at one byte of so many. A round runs each of gcc
# and clang, after the object step and after the link step.
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
	for kind in pie no-pie; do
		align=
		[ "$1" = gcc ] || align="-mllvm -x86-align-branch-boundary=8 -mllvm -x86-align-branch=indirect+call"
		$1 -std=gnu11 -O2 -g -f$kind $align $inc -c -o "$d/pv-$kind.o" tests/pv/stress.c
		$1 -std=gnu11 -O2 -g -fPIC $align $inc -c -o "$d/pv-plugin.o" tests/pv/stress_plugin.c
		"$B/etch" rewrite "$d/pv-$kind.o" "$d/pv-plugin.o"
		$1 -$kind -rdynamic -o "$d/pv-$kind" "$d/pv-$kind.o" $lib
		$1 -shared -o "$d/pv-plugin.so" "$d/pv-plugin.o" $lib
		[ "$2" = object ] || "$B/etch" rewrite "$d/pv-$kind" "$d/pv-plugin.so"
	done
}

for cc in gcc clang; do
	for stage in object linked; do
		build $cc $stage
	done
done
for name in model step; do
	gcc -std=gnu11 -O2 -g -D_GNU_SOURCE -Ilib/include -o "$dir/copy-$name" "tests/copy/$name.c" "$B/libetch.a" -pthread
done
for variant in sse2 sse2+erms avx2 avx2+erms avx512 avx512+erms; do
	for mode in src dst bus_src bus_dst read_only; do
		echo "copies, $variant, every fault of $mode:"
		"$dir/copy-model" $variant $mode "${COPIES:-1}" || [ $? = 77 ] # a processor without it
	done
	echo "copies, $variant, pages that go at every instruction:"
	"$dir/copy-step" $variant all || [ $? = 77 ]
done
echo "etch rewrite and check, killed and failing at every system call:"
ETCH_BUILD=$B ETCH_FAULTS=all .venv/bin/python -m pytest -q -p no:cacheprovider tests/test_faults.py
i=0
seed=${SEED:-$(date +%s)}
while [ "$i" -lt "$rounds" ]; do
	i=$((i + 1))
	for cc in gcc clang; do
		for stage in object linked; do
			echo "round $i of $rounds, $cc, $stage:"
			"$dir/$cc-$stage/stress" "${READS:-500000000}" "${SETS:-500000}" "${THREADS:-4}" \
				"$dir/$cc-$stage/plugin.so"
			for kind in pie no-pie; do
				"$dir/$cc-$stage/pv-$kind" "${CALLS:-100000000}" "${CALL_SETS:-100000}" "${THREADS:-4}" \
					"$dir/$cc-$stage/pv-plugin.so"
			done
		done
	done
	echo "random programs from seed $seed:"
	python3 tests/pv/stress_programs.py --run "$seed" "${PROGRAMS:-50}" "$B"
	seed=$((seed + ${PROGRAMS:-50}))
done
echo "soak: nothing torn, nothing stale, every call whole, every file whole"
