#!/bin/sh
# SPDX-License-Identifier: MIT
# The stress tests, for long. In the first sixth of the time copies with a fault at every byte, at
# more and more pairs of alignments, and with pages that go at every instruction; in the second the
# tool, killed before every system call, and each call failing with every error. In the rest
# tests/data/lib/stress.c, readers of every form and size against sets, dlopen, dlclose and fork;
# tests/data/pv/stress.c, callers through every form of site against the same, with signals and walks
# of the stack inside; random programs with ops objects. Stops at the first that goes wrong, with
# status 1 and the command that shows it again; what it needs is kept in BUILD/soak.
#
#     scripts/soak.sh [MINUTES]      20
#
# Of copies and system calls as much is done as there is time for, in an order that is another one
# each time. In the environment: B (build), READS (5*10^7), SETS (5*10^4), SWEPT (10^9), SWAPS (2*10^4),
# CALLS (10^7), CALL_SETS (10^4) and PROGRAMS (5) a round, THREADS (4) that read or call, SEED of the order
# and the random programs (the time). A round runs each of gcc and clang, after the object step and after
# the link step.
set -eu
cd "$(dirname "$0")/.."
B=$(cd "${B:-build}" && pwd)
minutes=${1:-20}
seed=${SEED:-$(date +%s)}
end=$(($(date +%s) + minutes * 60))
dir=$B/soak
HANGS=900 # seconds; nothing here takes so long
mkdir -p "$dir"

# ---- time, and what is said ---------------------------------------------------------

# Seconds that are left of the first $1 hundredths of the time, once all is built.
left() {
	echo $((built + (end - built) * $1 / 100 - $(date +%s)))
}

part() {
	clear_line
	echo "$*"
}

clear_line() {
	[ ! -t 2 ] || printf '\r\033[K' >&2
}

# Runs a command, at most until the time's first $1 hundredths are over: 0, 1 where that cut it off, or
# the end of all.
try() {
	most=$(left "$1") hangs=
	shift
	[ "$most" -gt 0 ] || return 1
	[ "$most" -lt "$HANGS" ] || most=$HANGS hangs=1
	[ ! -t 2 ] || printf '\r\033[K%.110s' "$*" >&2
	status=0
	timeout -k 10 -s INT "$most" "$@" >"$dir/said" 2>&1 || status=$?
	case $status in
	0 | 77) return 0 ;; # 77: a processor without it
	124 | 137) [ "$hangs" ] || return 1 ;;
	esac
	clear_line
	cat "$dir/said"
	echo "soak: exit status $status: $*"
	exit 1
}

shuffled() {
	python3 -c 'import random, sys
lines = sys.stdin.readlines()
random.Random(int(sys.argv[1])).shuffle(lines)
print(end="".join(lines))' "$seed"
}

# ---- the programs -------------------------------------------------------------------

rewrite() { # what there is to say of them is not asked for
	"$B/etch" rewrite "$@" 2>"$dir/said" || { cat "$dir/said"; exit 1; }
}

build() { # compiler stage
	d=$dir/$1-$2
	rm -rf "$d"
	mkdir -p "$d"
	inc="-D_GNU_SOURCE -Ilib/include -Itests/data"
	lib="-L$B -letch -Wl,-rpath,$B -pthread -ldl"
	$1 -std=gnu11 -O2 -g -fPIE $inc -c -o "$d/stress.o" tests/data/lib/stress.c
	$1 -std=gnu11 -O2 -g -fPIC $inc -c -o "$d/plugin.o" tests/data/lib/stress_plugin.c
	rewrite "$d/stress.o" "$d/plugin.o"
	$1 -pie -rdynamic -o "$d/stress" "$d/stress.o" $lib
	$1 -shared -o "$d/plugin.so" "$d/plugin.o" $lib
	$1 -std=gnu11 -O2 -g -fPIE $inc -c -o "$d/swaps.o" tests/data/lib/swaps.c
	$1 -std=gnu11 -O2 -g -fPIC $inc -c -o "$d/swaps_plugin.o" tests/data/lib/swaps_plugin.c
	rewrite "$d/swaps.o" "$d/swaps_plugin.o"
	$1 -pie -rdynamic -o "$d/swaps" "$d/swaps.o" $lib
	$1 -shared -o "$d/swaps_plugin.so" "$d/swaps_plugin.o" $lib
	[ "$2" = object ] || rewrite "$d/stress" "$d/plugin.so" "$d/swaps" "$d/swaps_plugin.so"
	for kind in pie no-pie; do
		calls=$(PYTHONPATH=scripts python3 -c "import call_options; print(*call_options.call_options('$1'))")
		$1 -std=gnu11 -O2 -g -f$kind $calls $inc -c -o "$d/pv-$kind.o" tests/data/pv/stress.c
		$1 -std=gnu11 -O2 -g -fPIC $calls $inc -c -o "$d/pv-plugin.o" tests/data/pv/stress_plugin.c
		rewrite "$d/pv-$kind.o" "$d/pv-plugin.o"
		$1 -$kind -rdynamic -o "$d/pv-$kind" "$d/pv-$kind.o" $lib
		$1 -shared -o "$d/pv-plugin.so" "$d/pv-plugin.o" $lib
		[ "$2" = object ] || rewrite "$d/pv-$kind" "$d/pv-plugin.so"
	done
}

part "soak: $minutes minutes, seed $seed"
for cc in gcc clang; do
	for stage in object linked; do
		build $cc $stage
	done
done
for name in model step; do
	gcc -std=gnu11 -O2 -g -D_GNU_SOURCE -Ilib/include -o "$dir/copy-$name" "tests/data/copy/$name.c" "$B/libetch.a" -pthread
done

built=$(date +%s)

# ---- copies: each step is one alignment of the other side in so many ------------------

copies() {
	for step in 64 16 4 1; do
		done=0
		for job in $(for v in sse2 sse2+erms avx2 avx2+erms avx512 avx512+erms; do
			for mode in src dst bus_src bus_dst read_only; do echo "$v:$mode"; done
			[ $step != 64 ] || echo "$v:step"
		done | shuffled); do
			if [ "${job#*:}" = step ]; then
				try 17 "$dir/copy-step" "${job%:*}" all || return 0
			else
				try 17 "$dir/copy-model" "${job%:*}" "${job#*:}" $step || return 0
			fi
			done=$((done + 1))
		done
	done
}
copies
part "copies with a fault at one alignment in $step: $done runs; and all of those at fewer"

# ---- system calls ---------------------------------------------------------------------

tests=$(ETCH_BUILD=$B .venv/bin/python -m pytest -q --collect-only -p no:cacheprovider tests/rewrite/test_interruptions.py | grep ::)
count=0
echo "$tests" | shuffled >"$dir/tests"
while IFS= read -r id; do
	ETCH_BUILD=$B ETCH_FAULTS=all try 33 .venv/bin/python -m pytest -q -p no:cacheprovider --basetemp "$dir/pytest" "$id" </dev/null || break
	count=$((count + 1))
done <"$dir/tests"
part "etch rewrite and check, killed and failing at every system call: $count of $(echo "$tests" | wc -l) tests"

# ---- what is left ---------------------------------------------------------------------

round=0
while [ "$(left 100)" -gt 0 ]; do
	for cc in gcc clang; do
		for stage in object linked; do
			d=$dir/$cc-$stage
			try 100 "$d/stress" "${READS:-50000000}" "${SETS:-50000}" "${THREADS:-4}" "$d/plugin.so" || break 3
			try 100 "$d/swaps" "${SWEPT:-1000000000}" "${SWAPS:-20000}" "$d/swaps_plugin.so" || break 3
			for kind in pie no-pie; do
				try 100 "$d/pv-$kind" "${CALLS:-10000000}" "${CALL_SETS:-10000}" "${THREADS:-4}" "$d/pv-plugin.so" || break 4
			done
		done
	done
	try 100 python3 tests/patch/stress_programs.py --run $((seed + round * ${PROGRAMS:-5})) "${PROGRAMS:-5}" "$B" || break
	round=$((round + 1))
done
part "readers and callers against sets, and random programs: $round rounds"
part "soak: nothing torn, nothing stale, every call whole, every file whole"
