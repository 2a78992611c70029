#!/bin/bash
# SPDX-License-Identifier: MIT
# Run inside of a distribution by scripts/distribution.sh: a little of everything that may be installed there, with
# exceptions and panics where the language has them. What it prints is compared; it depends on nothing that changes.
export LC_ALL=C HOME=/root PYTHONHASHSEED=0 GOFLAGS=-mod=mod GOCACHE=/root/etch-tour/go
rm -rf /root/etch-tour /tmp/etch-tour-pg
mkdir /root/etch-tour && cd /root/etch-tour || exit 1
trap 'rm -rf /root/etch-tour /tmp/etch-tour-pg' EXIT

try() { # NAME COMMAND...
	local name=$1
	shift
	if command -v "$1" >/dev/null; then
		echo "== $name"
		"$@" 2>/dev/null
		echo "status $?"
	else
		echo "== $name: not here"
	fi
}

cat >a.cc <<'X'
#include <iostream>
#include <stdexcept>
#include <vector>
static int f(int n)
{
	volatile char frame[20000];

	frame[n] = 1;
	if (n < 1)
		throw std::runtime_error("thrown");
	std::vector<int> v(n, n);
	return f(n - 1) + v.back() + frame[n];
}
int main()
{
	try {
		f(50);
	} catch (std::exception &e) {
		std::cout << e.what() << "\n";
	}
}
X
try g++ g++ -O2 -fstack-clash-protection -o a a.cc && ./a
try clang++ clang++ -O2 -o b a.cc && ./b
try python3 python3 -c 'import hashlib, json, sqlite3; print(hashlib.sha256(b"x").hexdigest(), sqlite3.connect(":memory:").execute("select 6*7").fetchone(), json.dumps({"a": [1, None]}))'
try perl perl -e 'my %h = map { $_ => $_ ** 2 } 1 .. 100; print join(",", map { "$_=$h{$_}" } sort { $a <=> $b } keys %h), "\n"; eval { die "died\n" }; print $@'
try git git hash-object --stdin </etc/passwd
try openssl openssl enc -aes-256-ctr -K 00 -iv 00 -in /etc/passwd -a
try node node -e 'console.log([..."hello"].reverse().join("")); try { null.x } catch (e) { console.log(e.name) }'
try ruby ruby -e 'puts (1..20).inject(:*); begin; raise "r"; rescue => e; puts e.message; end'
try php php -r 'echo md5("x"), "\n"; try { throw new Exception("p"); } catch (Exception $e) { echo $e->getMessage(), "\n"; }'
try ffmpeg ffmpeg -v error -f lavfi -i testsrc=d=1:s=64x64:r=5 -c:v mpeg4 -bitexact -f m4v - | sha256sum
try gdb gdb -batch -ex 'p 6*7'
printf 'package main\nimport "fmt"\nfunc main() { defer func() { fmt.Println(recover()) }(); var m map[int]int; m[1] = 1 }\n' >m.go
try go go run m.go
printf 'fn main() { let r = std::panic::catch_unwind(|| { panic!("p") }); println!("{}", r.is_err()); }\n' >m.rs
try rustc rustc m.rs && ./m 2>/dev/null
printf 'let rec f n = if n = 0 then raise Not_found else 1 + f (n - 1)\nlet () = try ignore (f 1000) with Not_found -> print_endline "not found"\n' >o.ml
try ocamlopt ocamlopt -o o o.ml && ./o
printf 'import Control.Exception\nmain = do { r <- try (evaluate (1 `div` (0 :: Int))); print (r :: Either ArithException Int) }\n' >h.hs
try ghc ghc -v0 h.hs && ./h
printf 'program p; begin writeln(6 * 7); end.\n' >p.pas
try fpc fpc -v0 p.pas && ./p
printf 'with Ada.Text_IO;\nprocedure A2 is begin raise Constraint_Error; exception when others => Ada.Text_IO.Put_Line ("raised"); end A2;\n' >a2.adb
try gnatmake gnatmake -q a2.adb && ./a2
printf 'import std.stdio; void main() { try throw new Exception("d"); catch (Exception e) writeln(e.msg); }\n' >d.d
try ldc2 ldc2 d.d && ./d
try gdc gdc -o d2 d.d && ./d2
try R Rscript -e 'cat(mean(1:10), "\n"); tryCatch(stop("s"), error = function(e) cat(conditionMessage(e), "\n"))'
try swipl swipl -g 'X is 6*7, writeln(X), catch(throw(t), t, writeln(caught))' -t halt
try luajit luajit -e 'print(6 * 7, pcall(error, "l"))'
try guile guile -c '(display (catch #t (lambda () (throw (quote k))) (lambda a a))) (newline)'
try erl erl -noshell -eval 'io:format("~p~n", [catch throw(e)]), halt().'
try convert convert -size 32x32 gradient: -depth 8 gray:- | sha256sum
try tar tar cf - /etc/passwd | wc -c
try sqlite3 sqlite3 :memory: 'select 6*7'
try systemctl systemctl --version
try busybox busybox sh -c 'echo $((6 * 7))'
try ldconfig ldconfig -p | wc -l
if command -v su >/dev/null && [ -d /usr/lib/postgresql ]; then
	su postgres -s /bin/sh -c 'PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin); initdb -D /tmp/etch-tour-pg >/dev/null 2>&1 &&
		pg_ctl -D /tmp/etch-tour-pg -o "-p 5599 -k /tmp" -w start >/dev/null &&
		psql -h /tmp -p 5599 -Atc "select sum(g) from generate_series(1, 100000) g" postgres; pg_ctl -D /tmp/etch-tour-pg stop >/dev/null'
fi
exit 0
