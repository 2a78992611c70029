# SPDX-License-Identifier: MIT
"""The programs that must give the same output rewritten and not.

Each has a script for sh -e, which runs in an empty directory with out/ in it. Its output,
what it writes to stderr, its exit status and the contents of all files in out/ are compared
byte for byte. `times` are the only things taken out before: what is a time, or a rate made
of one. What a debugger or tracer runs does not get LD_PRELOAD: its system calls, addresses and
memory are what they print (sample.py). What programs are given is of this repository or made by the script: nothing depends
on what else is installed.

    import list
    for program in list.programs():
        program.prepare(root)           # which files it loads; rewritten into the Root
        before = program.run()          # in the system as it is
        after = program.run(root, {"LD_PRELOAD": "..."})
"""

import sys
from pathlib import Path

from program import Program

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import packages  # noqa: E402

# Servers that refuse to be root are somebody else then.
NOBODY = r'''
    user() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"; else "$@"; fi; }
'''

# Waits until the server just started listens: wait_for PORT. It ends with the script.
WAIT_FOR = r'''
    wait_for() { trap "kill $! 2>/dev/null || :" EXIT; n=0; until bash -c ": </dev/tcp/127.0.0.1/$1" 2>/dev/null; do n=$((n + 1)); [ $n -lt 600 ]; sleep 0.1; done; }
'''

PYTHON_TESTS = """array ast binascii complex contextlib ctypes deque dict exceptions fractions functools
    generators hashlib heapq itertools json math pickletools re sqlite3 struct unicodedata xml_etree_c zlib"""

INTERPRETERS = [
    Program("python3", "python3", 'python3 "$INPUT/work.py"', needs="python3", short=True),
    Program("python3-tests", "libpython3.11-testsuite",
            f"python3 -m test -v {' '.join('test_' + t for t in PYTHON_TESTS.split())} >log 2>&1 || echo failed\n"
            r'''grep -E ' \.\.\. (ok|skipped|FAIL|ERROR)|^(Ran|OK|FAILED|Result|Total|== Tests result)' log
            grep -cE ' \.\.\. ok' log''', needs="python3 /usr/lib/python3.11/test/test_json",
            times=[(r"^(Ran \d+ tests?) in [\d.]+s", r"\1"), (r"^(Total duration:) .*", r"\1")]),
    Program("perl", "perl", 'perl "$INPUT/work.pl" "$TEXT"', needs="perl", short=True),
    Program("ruby", "ruby", 'ruby "$INPUT/work.rb" "$TEXT"', needs="ruby"),
    Program("php", "php-cli", 'php "$INPUT/work.php" "$TEXT"', needs="php"),
    Program("lua", "lua5.4", 'lua5.4 "$INPUT/work.lua" "$TEXT"', needs="lua5.4"),
    Program("luajit", "luajit", 'luajit "$INPUT/work.lua" "$TEXT"', needs="luajit"),
    Program("node", "nodejs", 'node "$INPUT/work.js" "$TEXT"', needs="node"),
    Program("java", "openjdk-17-jdk-headless", r'''
        java -version
        javac -d out "$INPUT/Work.java"
        java -Xint -cp out Work "$TEXT" 10 || echo "exit $?"
        for o in "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" "-XX:-TieredCompilation -XX:+UseParallelGC" -XX:+UseG1GC; do
            java $o -cp out Work "$TEXT" 1000 || echo "exit $?"
        done''', needs="java javac"),
    Program("tcl", "tcl", r'''
        tclsh <<'E'
            proc fib n { expr {$n < 2 ? $n : [fib [expr {$n - 1}]] + [fib [expr {$n - 2}]]} }
            set f [open $env(TEXT)]; set text [read $f]; puts "[string length $text] [fib 18] [expr {3 ** 100}]"
            foreach w [regexp -all -inline {[a-z]+} $text] { dict incr count $w }
            puts [lrange [lsort -integer -stride 2 -index 1 -decreasing $count] 0 1]
            puts [catch {expr {1 / 0}} why]$why; puts [zlib crc32 $text]; puts [clock format 0 -gmt 1]
            coroutine c apply {{} { yield; for {set i 0} {$i < 3} {incr i} { yield $i } }}; puts "[c] [c]"
E''', needs="tclsh", short=True),
    Program("guile", "guile-3.0", r'''
        cat >w.scm <<'E'
            (use-modules (ice-9 regex) (srfi srfi-1) (ice-9 textual-ports))
            (define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
            (define text (call-with-input-file (getenv "TEXT") get-string-all))
            (display (list (string-length text) (fib 24) (expt 3 100) (/ 1 3) (exact->inexact 2/7))) (newline)
            (display (length (list-matches "[a-e]+ " (substring text 0 20000)))) (newline)
            (display (catch #t (lambda () (vector-ref (vector 1) 5)) (lambda (key . args) key))) (newline)
            (display (call/cc (lambda (k) (for-each (lambda (x) (if (> x 2) (k x))) '(1 2 3 4)) 'none))) (newline)
            (display (fold + 0 (map (lambda (x) (* x x)) (iota 1000)))) (gc) (newline)
E
        guile --no-auto-compile -s w.scm''', needs="guile"),
    Program("R", "r-base-core", r'''
        cat >w.R <<'E'
            set.seed(1); m <- matrix(rnorm(10000), 100); print(sum(solve(m) %*% m), digits = 6); print(round(eigen(crossprod(m))$values[1:4], 6))
            d <- data.frame(x = 1:50, y = (1:50)^1.5 + rnorm(50)); print(summary(lm(y ~ x, d)))
            t <- table(unlist(strsplit(readLines(Sys.getenv("TEXT"), 2000), "[^a-z]+"))); print(head(sort(t, decreasing = TRUE), 8))
            print(tryCatch(stop("own"), error = function(e) conditionMessage(e))); print(fft(1:8)); print(optimize(cos, c(0, 5))$minimum)
E
        R --no-save --no-restore --slave -f w.R''', needs="R"),
    Program("ocaml", "ocaml-nox", r'''
        cat >w.ml <<'E'
            let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
            module M = Map.Make(String)
            let () =
              Printf.printf "%d %.6f\n" (fib 25) (sqrt 2.);
              let m = List.fold_left (fun m i -> M.add (string_of_int (i * 7919 mod 1009)) i m) M.empty (List.init 5000 Fun.id) in
              Printf.printf "%d %s\n" (M.cardinal m) (fst (M.max_binding m));
              (try ignore (List.nth [1] 5) with Failure s -> print_endline s);
              (try ignore ([|1|].(fib 5)) with Invalid_argument s -> print_endline s);
              (try ignore (1 / (fib 0)) with Division_by_zero -> print_endline "division");
              let rec deep n = 1 + deep (n + 1) in (try ignore (deep 0) with Stack_overflow -> print_endline "deep");
              print_endline (Digest.to_hex (Digest.file (Sys.getenv "TEXT")))
E
        ocaml w.ml; ocamlopt -o w w.ml; ./w; sha256sum w.cmx''', needs="ocaml ocamlopt gcc"),
    Program("erlang", "erlang-base", r'''
        erl -noinput -eval 'F = fun F(N) when N < 2 -> N; F(N) -> F(N - 1) + F(N - 2) end, io:format("~p ~p~n", [F(22), erlang:phash2(lists:seq(1, 99999))]),
            {ok, B} = file:read_file(os:getenv("TEXT")), io:format("~p ~p ~p~n", [erlang:crc32(B), erlang:md5(B), length(re:split(B, "[a-e]+ "))]),
            S = self(), [spawn(fun() -> S ! {N, F(N)} end) || N <- lists:seq(1, 15)], io:format("~p~n", [[receive {N, V} -> V end || N <- lists:seq(1, 15)]]),
            io:format("~p ~p~n", [catch 1 / 0 =:= x, catch lists:nth(5, [1])]), halt(3).' 2>&1 || echo "exit $?" ''', needs="erl"),
    Program("swipl", "swi-prolog-nox", r'''
        cat >w.pl <<'E'
            queens(N, Qs) :- numlist(1, N, Ns), permutation(Ns, Qs), safe(Qs).
            safe([]). safe([Q|Qs]) :- no_attack(Q, Qs, 1), safe(Qs).
            no_attack(_, [], _). no_attack(Q, [R|Rs], D) :- Q =\= R + D, Q =\= R - D, D1 is D + 1, no_attack(Q, Rs, D1).
            :- queens(8, Qs), print(Qs), nl, X is 3 ** 200 mod 1000007, print(X), nl, catch(Y is 1 / 0, error(E, _), (print(E), nl)), print(Y), nl.
            :- numlist(1, 20000, L), foldl([A, B, C]>>(C is (A * 31 + B) mod 65537), L, 0, S), print(S), nl, atom_codes(A, "etch"), print(A), nl.
E
        swipl -q -g halt w.pl''', needs="swipl", times=[(r"_\d+$", "_")]),
    Program("sbcl", "sbcl", r'''
        sbcl --noinform --no-userinit --non-interactive --eval '(progn (defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
            (print (list (fib 24) (expt 3 100) (/ 22 7) (sqrt -2.0))) (print (handler-case (/ 1 (fib 0)) (division-by-zero () :zero)))
            (print (handler-case (labels ((f (n) (+ 1 (f n)))) (f 0)) (storage-condition () :deep)))
            (print (handler-case (car (fib 5)) (type-error () :type))) (print (length (loop repeat 200000 collect (make-string 10)))) (gc :full t) (terpri))' ''',
            needs="sbcl"),
    Program("gawk", "gawk", r'''
        gawk '{ for (i = 2; i <= NF; i++) n[$i]++; s += $1 } END { m = asorti(n, k); print m, k[1], n[k[1]], s, sprintf("%.5f %c %x", s / NR, 65, 48879) }' "$TEXT"
        gawk 'BEGIN { PROCINFO["sorted_in"] = "@val_num_desc" } match($0, /([a-c]+) ([d-f]+)/, m) { c[m[1] m[2]]++ } END { for (i in c) { print i, c[i]; if (++n > 5) exit 3 } }' "$TEXT" || echo $?
        gawk -M 'BEGIN { print 3 ^ 150; print strftime("%F", 0), gensub(/(a)(b)/, "\\2\\1", "g", "abab"), toupper("x") }'
        gawk 'BEGIN { print "3\n1" |& "cat"; close("cat", "to"); while (("cat" |& getline l) > 0) print l }' </dev/null''', needs="gawk"),
    Program("bash", "bash", r'''
        bash -c 'declare -A n; while read -r a b rest; do n[${b%?}]+=x; ((s += 10#$a)); done < <(head -n 3000 "$TEXT"); echo ${#n[@]} $s
            fib() { (( $1 < 2 )) && { echo $1; return; }; echo $(( $(fib $(($1 - 1))) + $(fib $(($1 - 2))) )); }; fib 9
            [[ "ab12cd" =~ ([a-z]+)([0-9]+) ]] && echo "${BASH_REMATCH[@]}"; printf "%05d %q %(%F)T\n" 42 "a b" 0; x=abcabc; echo ${x//b/Z} ${x^^} ${x:1:3}
            trap "echo usr1" USR1; kill -USR1 $$; coproc c { while read -r l; do echo "<$l>"; done; }; echo hi >&${c[1]}; read -r l <&${c[0]}; echo $l
            a=({1..5}); echo ${a[@]:1:3} $((16#ff ** 2 % 77)); nosuch 2>/dev/null || echo $?; (ulimit -s 256; f() { f; }; f) 2>/dev/null; echo $?; kill $c_PID' ''',
            needs="bash", short=True),
    Program("zsh", "zsh", r'''
        zsh -f -c 'typeset -A n; for l in ${(f)"$(head -n 2000 "$TEXT")"}; do for w in ${=l}; do (( n[$w]++ )); done; done; print ${#n}; print -l ${(o)${(k)n}} | tail -n 3
            print ${(U)n[the]} $((2 ** 0.5)) ${(j:,:)${(s: :):-a b c}}; setopt extendedglob; [[ ab12 = (#b)([a-z]##)(<->) ]] && print $match; { nosuch } always { print always } 2>/dev/null || print $?' ''', needs="zsh"),
    Program("fish", "fish", r'''fish -N -c 'set s 0; for l in (head -n 300 $TEXT); set s (math $s + (string split \t $l)[1]); end; echo $s; string match -r "([a-z]+)(\d+)" ab12
            function f; test $argv[1] -lt 2; and echo $argv[1]; and return; math (f (math $argv[1] - 1)) + (f (math $argv[1] - 2)); end; f 6; string upper (string sub -s 2 -l 2 abcd); count (seq 100)' ''', needs="fish"),
    Program("bc", "bc dc", r'''
        printf 'scale=300; 4*a(1)\ndefine f(n) {\nif (n < 2) return (n);\nreturn (f(n-1) + f(n-2));\n}\nf(18); scale=0; 2^2000 %% 1000007; scale=30; sqrt(2); 1/0\n' | bc -lq 2>&1
        dc -e '200k 2v p 3 500^ p [la1+dsa30>x]dsxx la p' ''', needs="bc dc"),
    Program("pypy3", "pypy3", 'sed "s/^import array.*/import hashlib, re, json/" "$INPUT/work.py" >/dev/null; pypy3 -c "import hashlib, re, os, json\nt = open(os.environ[\'TEXT\']).read()\nprint(hashlib.sha256(t.encode()).hexdigest(), len(re.findall(\'[a-e]+ \', t)))\nx = 1\nfor i in range(5000000): x = (x * 31 + i) % 1000003\nprint(x, 3 ** 200)\nprint(json.dumps({str(i): [i] * 3 for i in range(4)}))\ndef f(n): return f(n + 1)\ntry: f(0)\nexcept RecursionError as e: print(type(e))"', needs="pypy3"),
    Program("mono", "mono-runtime", 'mono --version | head -n 1; mono --aot=help nothing 2>&1 | head -n 3; mono nosuch.exe', needs="mono", ok=2),
]

COMPILERS = [
    Program("cc1", "gcc", r'''
        for o in -O0 "-O2 -g" "-Os -fno-pic"; do
            for f in lookup walk; do
                $(gcc -print-prog-name=cc1) -quiet -D_GNU_SOURCE -I "$SOURCE/lib" -I "$SOURCE/lib/include" -imultiarch x86_64-linux-gnu \
                    $o "$SOURCE/lib/unwind/$f.c" -o "out/$f$(echo "$o" | tr -d ' ').s"
            done
        done
        echo 'int f(void) { return x; }' | $(gcc -print-prog-name=cc1) -quiet - -o /dev/null 2>&1 || echo "exit $?"''', needs="gcc"),
    Program("gcc", "gcc", r'''
        gcc -O2 -g -o out/w "$INPUT/work.c"; out/w 9; gcc -O1 -S -o out/w.s "$INPUT/work.c"; objdump -dlrw out/w | sha256sum; readelf -aW out/w | sha256sum
        echo 'int f(void) { return x; }' | gcc -c -x c - -o /dev/null 2>&1 || echo "exit $?"''', needs="gcc", short=True),
    Program("cc1plus", "g++", r'''
        for o in "-O1 -g"; do
            $(g++ -print-prog-name=cc1plus) -quiet -D_GNU_SOURCE -imultiarch x86_64-linux-gnu $o "$INPUT/work.cc" -o "out/$(echo "$o" | tr -d ' ').s"
        done
        echo '#include <map>
              std::map<int, struct u> m; int f() { return m[3] + std::nosuch(); }' | $(g++ -print-prog-name=cc1plus) -quiet -imultiarch x86_64-linux-gnu -x c++ - -o /dev/null 2>&1 || echo "exit $?"''', needs="g++"),
    Program("g++", "g++", r'''
        for o in "-O0 -static" "-O1 -flto -no-pie"; do g++ $o -pthread -o w "$INPUT/work.cc"; cp w "out/w$(echo "$o" | tr -d ' ')"; ./w "$TEXT" || echo "exit $?"; done
        g++ -O1 -g -fsanitize=address,undefined -o w "$INPUT/work.c" -x c++ -fpermissive -w && ASAN_OPTIONS="verify_asan_link_order=0:$ASAN_OPTIONS" ./w 20''', needs="g++"),
    Program("gfortran", "gfortran", r'''
        cat >w.f90 <<'E'
            program w
              real(8) :: a(80, 80), b(80, 80), c(80, 80)
              integer :: i, j
              do i = 1, 80; do j = 1, 80; a(i, j) = 1d0 / (i + j); b(i, j) = mod(i * j, 7); end do; end do
              c = matmul(a, b); print '(f12.6, i8)', sum(c), count(c > 5)
              write (*, *) trim(adjustl('  etch ')), maxloc(c)
            end program
E
        gfortran -O2 -o w w.f90; cp w out; ./w; gfortran -O3 -S -o out/w.s w.f90''', needs="gfortran"),
    Program("gnat", "gnat", r'''
        printf 'with Ada.Text_IO; use Ada.Text_IO;\nprocedure W is\n   A : array (1 .. 5) of Integer := (others => 2); N : Integer := 6;\n   task T is entry Go; end T;\n   task body T is begin accept Go do Put_Line ("task"); end Go; end T;\nbegin\n   T.Go; Put_Line (Integer (A (1))'"'"'Image); A (N) := 1;\nexception when Constraint_Error => Put_Line ("constraint");\nend W;\n' >w.adb
        gnatmake -q -O1 w.adb; ./w; cp w.o out''', needs="gnatmake"),
    Program("clang", "clang-14", r'''
        for o in -O0 "-O2 -g"; do
            for f in lookup walk; do
                clang-14 $o -D_GNU_SOURCE -I "$SOURCE/lib" -I "$SOURCE/lib/include" -c "$SOURCE/lib/unwind/$f.c" -o "out/$f$(echo "$o" | tr -d ' ').o"
            done
        done
        clang-14 -O2 -S -emit-llvm -o out/w.ll "$INPUT/work.c"; echo 'int f(void) { return x; }' | clang-14 -x c - 2>&1 || echo "exit $?"''', needs="clang-14"),
    Program("clang++", "clang-14 g++", r'''
        clang++-14 -O2 -pthread -o out/w "$INPUT/work.cc"; out/w "$TEXT" || echo "exit $?"
        clang++-14 -O1 -flto -fuse-ld=lld -pthread -o w "$INPUT/work.cc"; ./w "$TEXT" || echo "exit $?"''', needs="clang++-14 ld.lld"),
    Program("clang-15", "clang-15", r'''
        clang-15 -O3 -march=haswell -c -o out/w.o "$INPUT/work.c"; clang++-15 -O2 -S -o out/w.s "$INPUT/work.cc"''', needs="clang-15"),
    Program("llvm", "llvm-14", r'''
        clang-14 -O0 -Xclang -disable-O0-optnone -S -emit-llvm -o w.ll "$INPUT/work.c"
        opt-14 -O2 -S -o out/opt.ll w.ll; llc-14 -O2 -o out/w.s out/opt.ll; llc-14 -march=aarch64 -o out/arm.s out/opt.ll 2>&1; llvm-as-14 -o out/w.bc w.ll
        lli-14 w.ll 9; llvm-dis-14 -o - out/w.bc | sha256sum; llvm-mc-14 -filetype=obj -o out/w.o out/w.s; llvm-objdump-14 -d out/w.o | tail -n 3''', needs="clang-14 opt-14 llc-14"),
    Program("binutils", "binutils gcc", r'''
        gcc -O2 -g -S -o w.s "$INPUT/work.c"; as -o w.o w.s; cp w.o out
        for l in bfd gold; do gcc -fuse-ld=$l -o out/w-$l w.o; out/w-$l 7; done
        gcc -static -o out/static w.o; ld -r -o out/r.o w.o; ar rcsD out/w.a w.o out/r.o; nm w.o; size w.o; objdump -dlrw w.o | sha256sum; readelf -aW w.o | sha256sum
        strip -o out/stripped out/w-bfd; objcopy --only-keep-debug out/w-bfd out/w.debug; strings -n 8 out/w-bfd | head -n 3; addr2line -fe out/w-bfd 0x1200; c++filt _ZNSt6vectorIiSaIiEE9push_backEOi
        ld -o x w.o 2>&1 | tail -n 3''', needs="gcc ld.gold"),
    Program("lld", "lld gcc", r'''
        gcc -O2 -ffunction-sections -c -o w.o "$INPUT/work.c"; gcc -o out/w -B. -fuse-ld=lld -Wl,--gc-sections,--icf=all w.o; out/w 9
        gcc -shared -fPIC -o out/w.so -fuse-ld=lld -Wl,--build-id=sha1 -x c "$INPUT/work.c"''', needs="gcc ld.lld"),
    Program("go", "golang-go", r'''
        export GOCACHE="$HOME/cache" GOPATH="$HOME/go" GOFLAGS=-mod=mod GOPROXY=off GO111MODULE=off
        cat >w.go <<'E'
package main

import ("crypto/sha256"; "fmt"; "os"; "runtime"; "sort"; "strings"; "sync")

func fib(n int) int { if n < 2 { return n }; return fib(n-1) + fib(n-2) }
func main() {
	b, _ := os.ReadFile(os.Getenv("TEXT"))
	n := map[string]int{}
	for _, w := range strings.Fields(string(b)) { n[w]++ }
	k := []string{}
	for w := range n { k = append(k, w) }
	sort.Strings(k)
	fmt.Println(len(k), k[100], fib(25), fmt.Sprintf("%x", sha256.Sum256(b))[:16])
	var g sync.WaitGroup; r := make([]int, 20)
	for i := range r { g.Add(1); go func(i int) { defer g.Done(); r[i] = fib(i); runtime.Gosched() }(i) }
	g.Wait(); fmt.Println(r)
	func() { defer func() { fmt.Println(recover()) }(); var p *int; *p = 1 }()
	runtime.GC(); os.Exit(3)
}
E
        go version; gofmt -l w.go; go build -p 1 -o out/w w.go; out/w || echo "exit $?"''', needs="go"),
    Program("rustc", "rustc", r'''
        cat >w.rs <<'E'
use std::collections::BTreeMap;
use std::thread;
fn fib(n: u64) -> u64 { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }
fn main() {
    let text = std::fs::read_to_string(std::env::var("TEXT").unwrap()).unwrap();
    let mut n = BTreeMap::new();
    for w in text.split_whitespace() { *n.entry(w).or_insert(0) += 1; }
    println!("{} {:?} {}", n.len(), n.iter().nth(50), fib(24));
    let all: Vec<_> = (0..5).map(|i| thread::spawn(move || fib(i * 5))).collect();
    println!("{:?}", all.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>());
    println!("{}", std::panic::catch_unwind(|| { let v: Vec<i32> = vec![]; v[fib(3) as usize] }).is_err());
}
E
        rustc -g -o w w.rs; ./w; rustc -O --emit=obj -o out/w.o w.rs; echo 'fn main() { let x: i32 = "a"; }' | rustc - 2>&1 || echo "exit $?"''', needs="rustc"),
    Program("ghc", "ghc", r'''
        printf 'import qualified Data.Map as M\nimport Control.Exception\nimport Control.Concurrent\nmain :: IO ()\nmain = do\n  t <- readFile "text"\n  print (M.size (M.fromListWith (+) [(w, 1 :: Int) | w <- words t]))\n  print (sum (takeWhile (< 100000) (map (^ (2 :: Int)) [1 :: Integer ..])))\n  r <- try (evaluate (1 `div` (0 :: Int))) :: IO (Either ArithException Int)\n  print r\n  m <- newEmptyMVar\n  _ <- forkIO (putMVar m (length (show (3 ^ (5000 :: Int) :: Integer))))\n  takeMVar m >>= print\n' >w.hs
        ghc -v0 -O1 -o w w.hs
        # Its rows are in no .eh_frame.
        [ -z "$ETCH" ] || env -u LD_PRELOAD "$ETCH" rewrite w >etch.said 2>&1 || cat etch.said
        ./w; cp w.o out; runghc w.hs''', needs="ghc"),
    Program("ldc2", "ldc", r'''printf 'import std.stdio, std.algorithm, std.range;\nvoid main() { writeln(iota(1, 1000).filter!(a => a %% 7 == 0).map!(a => a * a).sum); try { int[] a; a[a.length + 3] = 1; } catch (Throwable e) { writeln(e.classinfo.name); } }\n' >w.d
            ldc2 -O1 -of=w w.d; ./w; ldc2 -c -O2 -of=out/w.o w.d''', needs="ldc2"),
    Program("gdc", "gdc", r'''printf 'import std.stdio, std.algorithm, std.range;\nvoid main() { writeln(iota(1, 1000).filter!(a => a %% 7 == 0).map!(a => a * a).sum); try { throw new Exception("own"); } catch (Exception e) { writeln(e.msg); } }\n' >w.d
            gdc -O1 -o w w.d; ./w; gdc -O2 -S -o out/w.s w.d''', needs="gdc"),
    Program("fpc", "fpc", r'''printf 'program w; uses sysutils; var i, s: longint; begin s := 0; for i := 1 to 100000 do s := (s * 31 + i) mod 65537; writeln(s, %cetch%c); try i := 0; s := 1 div i; except on e: EDivByZero do writeln(e.classname); end; end.\n' "'" "'" >w.pas
            fpc -Mobjfpc -v0 -O2 w.pas >/dev/null; ./w; cp w.o out''', needs="fpc"),
    Program("tcc", "tcc", 'tcc -run "$INPUT/work.c" 9; tcc -c -o out/w.o "$INPUT/work.c"; tcc -o out/w "$INPUT/work.c"; out/w 5', needs="tcc"),
    Program("nasm", "nasm", r'''
        { echo 'bits 64'; echo 'section .text'; for i in $(seq 2000); do echo "f$i: mov rax, [rdi + $i]"; echo "vaddps ymm1, ymm2, [rsi]"; echo "jnz f$i"; done; } >w.asm
        nasm -f elf64 -O9 -o out/w.o w.asm; ndisasm -b 64 out/w.o | sha256sum; echo nosuch | nasm -f elf64 -o x /dev/stdin 2>&1 || echo "exit $?"''', needs="nasm"),
    Program("make", "make", r'''
        { echo "all: $(seq -s ' ' 40)"; for i in $(seq 40); do printf '%d: %s\n\t@echo %d $(shell expr %d + 1) $(words $^)\n' $i "$([ $i -gt 10 ] && echo $((i / 2)) $((i - 7)))" $i $i; done; } >Makefile
        make --no-print-directory; make -pn | grep -c '^[0-9]*:'; printf 'x:\n\tfalse\n' >m; make -f m 2>&1 || echo "exit $?"''', needs="make", short=True),
    Program("cmake", "cmake ninja-build gcc", r'''
        mkdir s; printf 'cmake_minimum_required(VERSION 3.10)\nproject(w C)\nforeach(i RANGE 5)\nadd_executable(w${i} w.c)\nendforeach()\nenable_testing()\nadd_test(t w0 7)\nstring(REGEX REPLACE "(a+)b" "\\\\1" r aab)\nmessage(STATUS ${r})\n' >s/CMakeLists.txt; cp "$INPUT/work.c" s/w.c
        cmake -G Ninja -S s -B b; ninja -C b -j 1; (cd b; ctest; ninja -t graph | wc -l); b/w3 9''', needs="cmake ninja gcc",
            times=[(r"\([\d.]+s\)", "(Ts)"), (r"[\d.]+ sec", "T sec"), (r" +T sec", " T sec")]),
    Program("autotools", "autoconf automake m4", r'''
        printf 'AC_INIT([w],[1])\nAM_INIT_AUTOMAKE([foreign])\nAC_PROG_CC\nAC_CHECK_HEADERS([stdio.h])\nAC_CHECK_FUNCS([qsort nosuch])\nAC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n' >configure.ac; printf 'bin_PROGRAMS = w\nw_SOURCES = w.c\n' >Makefile.am; cp "$INPUT/work.c" w.c
        aclocal; autoconf; automake --add-missing --copy; ./configure --disable-dependency-tracking; make; ./w 5; sha256sum configure''', needs="autoconf automake m4 gcc make"),
    Program("bison", "bison flex", r'''
        printf '%%%%{\n#include <stdio.h>\nint yylex(void); void yyerror(const char *s) { puts(s); }\n%%%%}\n%%%%token N\n%%%%left "+"\n%%%%left "*"\n%%%%%%%%\ns: s e "\\n" { printf("%%%%d\\n", $2); } | ;\ne: N | e "+" e { $$ = $1 + $3; } | e "*" e { $$ = $1 * $3; } | "(" e ")" { $$ = $2; };\n%%%%%%%%\n' | sed 's/%%/%/g; s/"\(\\n\|.\)"/'"'\1'"'/g' >w.y
        bison --no-lines -v -o out/w.c w.y 2>&1; printf '%%%%\n[0-9]+ return 1;\n[ \\t] ;\n(a|b)*abb|[^x]{3,9} return 2;\n. return yytext[0];\n%%%%\n' | sed 's/%%%%/%%/' >w.l; flex -o out/l.c w.l; wc -l out/l.c''', needs="bison flex"),
]

TOOLS = [
    Program("git", "git", r'''
        export GIT_AUTHOR_DATE="2001-01-01T00:00:00Z" GIT_COMMITTER_DATE="2001-01-01T00:00:00Z"
        git init -q -b main r; cd r
        git config user.name A; git config user.email a@b; git config pack.threads 1
        for n in 1 3 5; do
            split -l $((n * 900)) "$TEXT" part-; git add .; git commit -q -m "change $n"
        done
        git log --stat | sha256sum; git log -p | sha256sum; git diff HEAD~1 --shortstat
        git blame part-aa | tail -n 3; git grep -c the | head -n 5
        git checkout -q -b side HEAD~1; echo x >side; git add side; git commit -q -m side; git merge -q -m merged main; git log --oneline --graph
        git repack -a -d -q; git fsck --strict; git count-objects -v | grep -v size
        git clone -q . ../c; git -C ../c rev-parse HEAD; git archive HEAD | sha256sum; git bundle create -q ../out/b --all''',
            needs="git", short=True),
    Program("coreutils", "coreutils", r'''
        cut -f2 "$TEXT" | tr ' .' '\n\n' | sort | uniq -c | sort -k1,1nr -k2 | head -n 5; sort -t "$(printf '\t')" -k1,1n -s "$TEXT" | sha512sum; sort -R --random-source="$TEXT" "$TEXT" | cksum
        factor 1234567890123456789012345678901 600851475143; seq -f %.3e 1 100000 1000000 | paste -s -d+; numfmt --to=iec 123456789; date -u -d @1e9 2>/dev/null || date -u -d @1000000000
        head -c 100000 "$TEXT" | base64 -w 60 | md5sum; od -An -tx4z "$TEXT" | head -n 2; shuf --random-source="$TEXT" -i 1-20 | tac | pr -t3; nl "$TEXT" | fold -w 40 | tail -n 2; expr substr abcdef 2 3; tsort <<E
a b
b c
E
        dd if="$TEXT" of=out/d bs=777 skip=3 count=100 conv=ucase,swab status=none; csplit -sf out/c "$TEXT" 3000 9000; split -n 7 "$TEXT" out/s; truncate -s 5K out/t; b2sum out/d; ls -1 out | wc -l; stat -c '%s %a' out/t; rm nosuch 2>&1 || echo $?''',
            needs="sort shuf factor", short=True),
    Program("grep", "grep sed mawk diffutils findutils patch", r'''
        grep -c '^[0-9]*[02468].\{0,9\}the' "$TEXT"; grep -oE '\b([a-z])[a-z]\1\b' "$TEXT" | sort | uniq -c | sort -rn | head -n 3; grep -P '(?<=a)\d|x(?!y)' "$TEXT" | wc -l; LC_ALL=C.UTF-8 grep -in 'É\|qQ' "$TEXT" | head -n 2
        sed -E 's/([0-9]+)\t(.*) ([a-z]+)\./\3:\1/; /^a/!d; y/abc/xyz/; 5q' "$TEXT"; sed -n '$!{h;d};H;x;p' "$TEXT" | cksum; mawk '{ n[$2] += $1 } END { for (w in n) if (n[w] > 3000000) print w, n[w] }' "$TEXT" | sort
        sed 's/the /THE /; 100,200d; 300a new' "$TEXT" >new; diff -u --label a --label b "$TEXT" new >out/diff || echo $?; diff "$TEXT" new | tail -n 2; cmp "$TEXT" new || echo $?; diff3 -m new "$TEXT" "$TEXT" | cksum
        cp "$TEXT" old; patch -s old out/diff; cmp old new; mkdir -p d/e/f; touch d/a.c d/e/b.c d/e/f/c.h; find d -name '*.[ch]' -printf '%P %y\n' | sort; find d -type f -print0 | sort -z | xargs -0 -n 2 echo''',
            needs="grep sed mawk diff find patch", short=True),
    Program("archives", "tar gzip bzip2 xz-utils cpio zstd lz4 brotli zip unzip", r'''
        mkdir d; (cd d; split -n 20 "$TEXT")
        tar --sort=name --mtime=@0 --owner=0 --group=0 -cf out/d.tar d; tar -tf out/d.tar | wc -l
        for z in "gzip -n" bzip2 "xz -T1" zstd lz4 brotli; do n=${z%% *}; $z -q -k -c out/d.tar 2>/dev/null >z.$n || $z -c out/d.tar >z.$n; cp z.$n out; $n -d -c z.$n | cmp - out/d.tar; done
        xz -T4 -9 -c out/d.tar >out/many.xz; zstd -q -19 -T4 -c out/d.tar >out/many.zst; xz -l z.xz; find d -type f | sort | cpio -o --reproducible --quiet -H newc | cpio -t 2>&1 | tail -n 2
        find d -exec touch -d @1000000000 {} +; zip -q -X -r d.zip d; unzip -t d.zip | tail -n 1; tar -xf out/d.tar -C out; head -c 1000 z.gzip | gzip -dc 2>&1 >/dev/null || echo $?''',
            needs="tar gzip bzip2 xz cpio zstd lz4 brotli zip unzip"),
    Program("tar-gzip", "tar gzip", r'''
        mkdir d; (cd d; split -n 20 "$TEXT"); tar --sort=name --mtime=@0 --owner=0 --group=0 -czf out/d.tgz d; tar -tzf out/d.tgz | wc -l; mkdir x; tar -xzf out/d.tgz -C x; diff -r d x/d
        gzip -9 -n -c "$TEXT" | tee out/9.gz | gzip -dc | cmp - "$TEXT"; gzip -l out/9.gz; head -c 1000 out/9.gz | gzip -dc 2>&1 >/dev/null || echo $?''', needs="tar gzip diff", short=True),
    Program("openssl", "openssl", r'''
        for d in md5 sha1 sha256 sha512 sha3-256 blake2b512; do openssl dgst -$d "$TEXT"; done
        for c in aes-128-cbc aes-256-ctr chacha20 camellia-256-cbc aria-128-cbc; do
            openssl enc -$c -pbkdf2 -k secret -S 0102030405060708 -in "$TEXT" -out out/$c
        done
        openssl genrsa -out k 2048; openssl req -new -x509 -key k -subj /CN=etch -out c
        openssl dgst -sha256 -sign k -out s "$TEXT"; openssl x509 -in c -noout -subject; openssl rsa -in k -pubout -out p 2>/dev/null
        openssl dgst -sha256 -verify p -signature s "$TEXT"; openssl verify -CAfile c c
        openssl prime -generate -bits 256 | wc -l''', needs="openssl", short=True),
    Program("openssl-speed", "openssl", r'''
        openssl speed -seconds 1 -bytes 4096 md5 sha512 aes-256-cbc camellia-128-cbc rsa2048 ecdsap256 ecdhx25519 ed25519 2>&1 | grep -v '^version\|^built\|^options\|^compiler\|^CPUINFO'
        openssl speed -seconds 1 -bytes 4096 -evp aes-256-gcm 2>&1 | grep ^Doing; openssl speed -seconds 1 -bytes 4096 -evp chacha20-poly1305 2>&1 | grep ^Doing''', needs="openssl",
            # How many operations in how long, and what that makes a second.
            times=[(r"\d+ ([-\w ]+)('s| ops|s) in [\d.]+s", r"N \1\2 in Ts"), (r"\d+ (.*) in [\d.]+s", r"N \1 in Ts"), (r" +[\d.]+k", " Nk"), (r" +[\d.]+s| +[\d.]+$| +[\d.]+(?= )", " T")]),
    Program("sqlite3", "sqlite3", r'''
        sqlite3 w.db <<'E' || echo "exit $?"
            create table t(n integer, w text); create index i on t(w); pragma journal_mode = wal;
            with recursive c(x) as (select 1 union all select x + 1 from c where x < 60000) insert into t select x * 7919 % 10007, 'w' || (x % 997) from c;
            select count(*), sum(n), count(distinct w) from t; select w, avg(n) a from t group by w order by a desc limit 3;
            explain query plan select * from t a join t b on a.w = b.w where a.n < 5; select count(*) from t a join t b on a.w = b.w where a.n < 20;
            create virtual table f using fts5(w); insert into f select w from t limit 2000; select count(*) from f where f match 'w1*';
            select json_group_array(n) from (select n from t order by n limit 5); select n, rank() over (order by n desc) from t limit 2;
            begin; update t set n = n + 1 where n % 3 = 0; delete from t where w like 'w9%'; rollback; pragma integrity_check; vacuum;
            select sum(length(randomblob(3))), printf('%08.3f', 3.14159), datetime(0, 'unixepoch'), hex(zeroblob(2)) from t limit 1; select 1/0, nosuch;
E
        sqlite3 w.db .dump | sha256sum''', needs="sqlite3"),
    Program("curl", "curl wget python3", WAIT_FOR + r'''
        python3 -m http.server 8000 --bind 127.0.0.1 -d . 2>/dev/null >/dev/null & wait_for 8000
        curl -sS http://127.0.0.1:8000/text | sha256sum; curl -sSI http://127.0.0.1:8000/text | grep -i length; curl -sS http://127.0.0.1:8000/nosuch -o /dev/null -w '%{http_code} %{size_download}\n'
        curl -sS --compressed -r 100-199 "file://$TEXT"; curl -sS http://127.0.0.1:1/ 2>&1 || echo "exit $?"; wget -q -O - http://127.0.0.1:8000/text | sha256sum; wget -q -O x http://127.0.0.1:8000/nosuch || echo "exit $?"''',
            needs="curl wget python3", times=[(r" after \d+ ms", " after T ms")]),
    Program("rsync", "rsync", r'''
        mkdir a b; split -n 30 "$TEXT" a/f; rsync -a a/ b/; diff -r a b; echo more >>a/faa; rm a/fab; rsync -ai --delete --checksum --no-times a/ b/; diff -r a b
        rsync -a --stats --no-whole-file a/ c/ | grep 'Number\|Total file'; rsync nosuch x 2>&1 || echo "exit $?"''', needs="rsync"),
    Program("ssh", "openssh-server openssh-client", WAIT_FOR + r'''
        ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t rsa -b 2048 -N '' -f me; cp me.pub auth; chmod 600 auth
        printf 'Port 2222\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/auth\nStrictModes no\nUsePAM no\nPidFile none\n' "$PWD" "$PWD" >conf
        mkdir -p /run/sshd; /usr/sbin/sshd -D -f conf & wait_for 2222
        for c in aes128-ctr chacha20-poly1305@openssh.com aes256-gcm@openssh.com; do
            ssh -F none -p 2222 -i me -c $c -o StrictHostKeyChecking=no -o UserKnownHostsFile=known -o LogLevel=ERROR root@127.0.0.1 "sha256sum; exit 3" <"$TEXT" || echo "exit $?"
        done
        ssh-keygen -Y sign -f me -n etch "$TEXT" 2>/dev/null; echo "etch $(cat me.pub)" >allowed; ssh-keygen -Y verify -f allowed -I etch -n etch -s "$TEXT.sig" <"$TEXT" | sed 's/SHA256:.*//' ''', needs="ssh sshd"),
    Program("gpg", "gnupg", r'''
        export GNUPGHOME="$PWD/g"; mkdir -m 700 g; gpg -q --batch --passphrase '' --quick-gen-key etch@localhost default default never 2>/dev/null
        gpg -q --batch -s -o s "$TEXT"; gpg -q --batch --verify s 2>&1 | grep -o 'Good.*etch@localhost'; gpg -q --batch --trust-model always -e -r etch@localhost -o e "$TEXT"; gpg -q --batch -d e 2>/dev/null | sha256sum
        gpg --print-md sha512 "$TEXT"; gpg -q --batch -c --passphrase x --pinentry-mode loopback -o c "$TEXT"; gpg -q --batch --passphrase x --pinentry-mode loopback -d c 2>/dev/null | sha256sum; gpgconf --kill all''', needs="gpg gpg-agent"),
    Program("jq", "jq", r'''jq -R -s 'split("\n") | map(select(length > 0) | split("\t") | {n: .[0] | tonumber, w: .[1] | split(" ")}) | {total: (map(.n) | add), long: (map(.w | length) | max), top: (map(.w[]) | group_by(.) | map([.[0], length]) | sort_by(-.[1])[:4])}' "$TEXT"
        jq -n '[limit(5; range(1; 100) | select(. % 7 == 3))], (try error("own") catch .), ("a1b22" | [scan("\\d+")]), ({} | .a.b = 1 | paths)'; echo '{' | jq . 2>&1 || echo "exit $?"''', needs="jq"),
    Program("xmllint", "libxml2-utils xsltproc", r'''
        { echo '<r>'; sed 's/&\|<//g; s/^\([0-9]*\)\t\(.*\)/<l n="\1">\2<\/l>/' "$TEXT"; echo '</r>'; } >w.xml; xmllint --c14n w.xml >c; sha256sum <c; xmllint --xpath 'count(//l[@n > 50000])' w.xml; xmllint --xpath 'string(//l[contains(., "the")][7])' w.xml
        xmllint --stream --timing w.xml >/dev/null 2>&1; echo '<a><b></a>' | xmllint - 2>&1 || echo "exit $?"; echo '<p>x<br>y' | xmllint --html -''', needs="xmllint"),
    Program("vim", "vim", r'''
        cp "$TEXT" t; vim -u NONE -i NONE -n -es -c '%s/\v(\d+)\t(\w+)/\2=\1/' -c 'g/^a/m0' -c '%sort n' -c 'silent! normal ggyyGp' -c 'let @a = string(map(range(20), "v:val * v:val"))' -c '$put a' -c 'w! out/t' -c q t
        vim -u NONE -i NONE -n -es -c 'syntax on' -c 'set ft=c' -c 'let l = map(range(1, 20), "synIDattr(synID(v:val, 1, 1), \"name\")")' -c 'call writefile(l, "out/syn")' -c 'q!' "$INPUT/work.c"; cat out/syn | sort | uniq -c''', needs="vim"),
    Program("groff", "groff-base", r'''for f in "$SOURCE"/docs/man/*.1; do groff -man -Tutf8 -P-c "$f" | sha256sum; groff -man -Tps "$f" 2>/dev/null | grep -v '^%%CreationDate' | sha256sum; done''', needs="groff"),
    Program("file", "file", r'''cp "$TEXT" t; gzip -n -k t; cp "$INPUT"/* .; gcc -c -o w.o work.c; gcc -o w w.o; touch -d @0 *; file -b --mime *; file t t.gz w.o Work.java''', needs="file gcc"),
    Program("gdb", "gdb gcc", r'''
        gcc -g -O0 -o w "$INPUT/work.c"
        printf '%s\n' 'set width 0' 'unset environment' 'set debuginfod enabled off' 'break push if value > 40' 'run 30' 'backtrace' 'info args' 'finish' 'watch counter' 'continue' 'continue' 'print *list' 'print list->next->value * 3' 'ptype list' 'info line sum' 'disassemble /s compare' 'delete' \
            'python print(sum(range(10)), gdb.selected_frame().name())' 'print list->value + counter' 'info sharedlibrary nosuch' 'break compare' 'continue' 'up' 'info symbol main' 'delete' 'continue' 'run 5 fault' 'backtrace' 'info registers rip' 'kill' >cmds
        gdb -q -nx -batch -x cmds w 2>&1 | grep -v 'in __GI_\|__libc_start\|msort\|qsort\|libthread_db\|Thread debugging' ''', needs="gdb gcc", traceable=False, more="/usr/lib/x86_64-linux-gnu/libthread_db.so.1 /usr/lib/python3.11/lib-dynload/*.so /usr/lib/gcc/x86_64-linux-gnu/12/cc1 /usr/bin/as /usr/bin/ld /usr/bin/grep",
            # gdb expects each section of a file in its separate debug file too, which was made before ours.
            known=r"^warning: section \.(etch\.\w+|note\.etch) not found in /usr/lib/debug/.*\n"),
    Program("strace", "strace", r'''
        strace -E LD_PRELOAD -f -qq -e trace=openat,execve,read,write,exit_group -e signal=none -o log -s 20 sh -c 'head -n 2 "$TEXT"; sort "$TEXT" | sed -n 5p; nosuch' 2>/dev/null || echo "exit $?"; grep -c 'openat(' log; grep -o 'execve("[^"]*"\|exit_group([0-9]*' log | sort
        strace -E LD_PRELOAD -c -e trace=write,read -o counts seq 5 >/dev/null; awk 'NR > 2 { print $NF }' counts | sort; strace -E LD_PRELOAD -qq -e inject=write:error=ENOSPC -o log2 seq 3 2>&1 || echo "exit $?"; cat log2 | tail -n 4''', needs="strace", traceable=False, more="/usr/bin/head /usr/bin/sort /usr/bin/sed /usr/bin/grep /usr/bin/awk /usr/bin/seq"),
    Program("valgrind", "valgrind gcc libc6-dbg", r'''
        gcc -g -O1 -o w "$INPUT/work.c"
        valgrind() { env -u LD_PRELOAD valgrind "$@"; }
        valgrind --leak-check=full --num-callers=4 ./w 12 beyond 2>&1 | grep -v 'Copyright\|Using Valgrind\|Command:\|0x4[0-9A-F]*:\|qsort\|msort\|Address 0x4'; valgrind -q --error-exitcode=9 ./w 9 fault 2>&1 | grep -v 0x4 || echo "exit $?"; valgrind -q --tool=none ./w 9
        valgrind --tool=helgrind -q ./w 9; valgrind --tool=massif --massif-out-file=m ./w 9 2>/dev/null; grep -c mem_heap m''', needs="valgrind gcc", more="/usr/libexec/valgrind/memcheck* /usr/libexec/valgrind/vgpreload_* /usr/libexec/valgrind/none* /usr/libexec/valgrind/helgrind* /usr/libexec/valgrind/massif*"),
    Program("busybox", "busybox-static", r'''busybox sh -c 'for i in 1 2 3; do echo $i | busybox md5sum; done; busybox awk "{ s += \$1 } END { print s }" "$TEXT"; busybox sort -n "$TEXT" | busybox sha256sum; busybox gzip -c "$TEXT" | busybox gunzip | busybox wc; busybox sed "s/a/b/g;5q" "$TEXT"; busybox vi --nosuch 2>&1; busybox nosuch 2>&1' || echo "exit $?"''', needs="busybox"),
    Program("qemu-user", "qemu-user gcc", r'''gcc -O2 -static -o w "$INPUT/work.c"; qemu-x86_64 ./w 50; qemu-x86_64 -cpu qemu64 ./w 9 fault 2>&1 | sed 's/0x[0-9a-f]*//g' || echo "exit $?"; qemu-x86_64 -d in_asm -D log ./w 5; wc -l <log | cut -c1''', needs="qemu-x86_64 gcc"),
    Program("qemu-system", "qemu-system-x86", r'''
        # A boot sector that says so on the serial line, and ends the machine.
        printf '\276\034\174\254\204\300\164\007\272\370\003\356\353\365\220\220\272\001\005\260\061\356\364\353\375\220\220\220etch booted\n\000' >boot; truncate -s 510 boot; printf '\125\252' >>boot
        timeout 60 qemu-system-x86_64 -machine accel=tcg -nodefaults -display none -serial stdio -device isa-debug-exit,iobase=0x501,iosize=2 -drive file=boot,format=raw,if=ide -net none || echo "exit $?"
        qemu-img create -q -f qcow2 d 10M; qemu-img info d | grep virtual; qemu-img convert -f raw -O qcow2 boot out/b''', needs="qemu-system-x86_64 qemu-img"),
    Program("redis", "redis-server", WAIT_FOR + r'''
        redis-server --save '' --port 6379 --bind 127.0.0.1 >/dev/null & wait_for 6379
        redis-cli eval 'for i = 1, 5000 do redis.call("zadd", "z", i * 7919 % 1009, "m" .. i); redis.call("hset", "h", i, i * i) end return redis.sha1hex("x")' 0
        redis-cli zrange z 0 5 withscores; redis-cli hget h 77; redis-cli lpush l a b c; redis-cli sort l alpha; redis-cli set s etch; redis-cli setbit s 3 1; redis-cli pfadd p a b c d; redis-cli pfcount p; redis-cli incr l 2>&1; redis-cli debug digest
        redis-benchmark -q -n 20000 -c 10 -t set,get,incr,lpush,zadd; redis-cli shutdown nosave''', needs="redis-server redis-cli", times=[(r".*\r", ""), (r"[\d.]+ requests per second, p50=[\d.]+ msec", "N requests")]),
    Program("nginx", "nginx-light curl", WAIT_FOR + r'''
        mkdir t; printf 'daemon off; pid %s/pid; error_log stderr crit; worker_processes 2; events {} http { access_log off; gzip on; gzip_types *; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;\n server { listen 127.0.0.1:8081; root %s; location /p { proxy_pass http://127.0.0.1:8081/; } location ~ ^/r(.*)$ { return 302 /x$1; } } }\n' "$PWD" "$PWD" >c
        nginx -p "$PWD" -c "$PWD/c" & wait_for 8081
        for i in 1 2 3; do curl -sS http://127.0.0.1:8081/text | sha256sum; curl -sS --compressed http://127.0.0.1:8081/ptext | sha256sum; done; curl -sS -o /dev/null -w '%{http_code} %{redirect_url}\n' http://127.0.0.1:8081/rabc; curl -sS -r 5-9,100-110 http://127.0.0.1:8081/text | wc -l; kill $(cat pid); wait''', needs="nginx curl"),
    Program("postgres", "postgresql-15", NOBODY + WAIT_FOR + r'''
        b=/usr/lib/postgresql/15/bin; mkdir pg; chmod 777 pg; cd pg; export PGDATA="$PWD/data" PGHOST=127.0.0.1 PGUSER=etch PGDATABASE=postgres
        user $b/initdb -U etch -A trust -E UTF8 --no-sync; user $b/pg_ctl -w -s -o "-k '' -h 127.0.0.1 -F" -l log start
        user $b/pgbench -i -s 2 2>&1; user $b/pgbench -c 4 -j 2 -t 300 --random-seed=1 2>&1; user $b/pgbench -c 2 -t 500 -S --random-seed=1 -M prepared 2>&1
        $b/psql -X -c 'select count(*), sum(aid) from pgbench_accounts' -c 'select sum(abalance) - (select sum(delta) from pgbench_history) from pgbench_accounts' \
            -c "create table t as select g n, md5(g::text) m from generate_series(1, 30000) g; create index on t using hash (m); create index on t using gin (to_tsvector('simple', m)); analyze t" \
            -c "explain (costs off) select * from t a join t b using (m) where a.n < 10" -c "select count(*), max(m) from t a join t b using (m) where a.n % 3 = 0" \
            -c "select n, lag(n) over (order by m) from t order by m limit 3" -c "select regexp_replace(m, '[a-f]+', '-', 'g'), jsonb_build_object('a', n), 2::numeric ^ 0.5 from t limit 2" -c "do \$\$ begin perform 1 / 0; exception when division_by_zero then raise notice 'zero'; end \$\$" -c 'select nosuch' || echo "exit $?"
        user $b/pg_dump -t t | grep -v '^.\(un\)\?restrict ' | sha256sum; user $b/pg_ctl -s -m fast stop; user $b/pg_controldata | grep 'cluster state'; user $b/pg_checksums -c 2>&1 || echo "exit $?"''',
            needs="/usr/lib/postgresql/15/bin/initdb psql", more="/usr/lib/postgresql/15/bin/*",
            times=[(r"^.*of \d+ tuples.*\n", ""), (r"in [\d.]+ s\b", "in T s"), (r"[\d.]+ s\b", "T s"), (r"(latency average|initial connection time) = [\d.]+ ms", r"\1 = T ms"), (r"tps = [\d.]+", "tps = N")]),
    Program("mariadb", "mariadb-server-core mariadb-client-core", NOBODY + r'''
        mkdir my; chmod 777 my; cat >boot.sql <<'E'
create database w;
use w;
create table t (n int primary key, s varchar(40), key (s)) engine=InnoDB;
insert into t select seq, md5(seq) from seq_1_to_20000;
select count(*), max(s) from t where n % 7 = 3 into outfile 'a';
select left(s, 1) c, count(*) from t group by c order by 2 desc, 1 limit 3 into outfile 'b';
select count(*) from t a join t b on a.s = b.s where a.n < 100 into outfile 'c';
start transaction;
delete from t where n > 5;
rollback;
check table t;
select 1/0, json_extract('[1,2]', '$[1]'), regexp_replace('a1b2', '[0-9]', '-') into outfile 'd';
E
        user mariadbd --no-defaults --datadir="$PWD/my" --bootstrap --skip-grant-tables --log-warnings=0 --innodb-flush-log-at-trx-commit=0 <boot.sql 2>log || { tail log; exit 1; }; grep -c ERROR log || true; (cd my/w; ls; cat a b c d)''', needs="mariadbd"),
    Program("named-checkzone", "bind9 bind9-utils", r'''{ echo '$TTL 60'; echo '@ SOA n. m. 1 2 3 4 5'; echo '@ NS n'; echo 'n A 127.0.0.1'; for i in $(seq 3000); do echo "h$i A 10.0.$((i / 256)).$((i % 256))"; done; } >z; named-checkzone -D -o out/z etch.test z; named-compilezone -F raw -o raw etch.test z; dnssec-keygen -q -a ECDSAP256SHA256 etch.test | wc -l''', needs="named-checkzone dnssec-keygen"),
    Program("tmux", "tmux", r'''tmux -f /dev/null -L e new-session -d -x 60 -y 10 'cat; sleep 9'; sleep 0.3; tmux -L e send-keys 'hello etch' Enter; sleep 0.5; tmux -L e split-window -h 'seq 20; sleep 9'; sleep 0.5; tmux -L e capture-pane -p -t 1; tmux -L e list-panes -F '#{pane_width}x#{pane_height}'; tmux -L e kill-server''', needs="tmux"),
]

MEDIA = [
    Program("ffmpeg", "ffmpeg", r'''
        f="ffmpeg -nostdin -hide_banner -loglevel error"; exact="-threads 1 -flags +bitexact -fflags +bitexact"
        $f -f lavfi -i testsrc2=s=160x120:r=10:d=2 -f lavfi -i sine=440:d=2 $exact -c:v mpeg4 -c:a aac out/a.mp4; $f -i out/a.mp4 -f framemd5 - | tail -n 3
        for c in libx264 libvpx-vp9 ffv1 mjpeg; do $f -i out/a.mp4 $exact -an -c:v $c out/$c.mkv; $f -i out/$c.mkv -vf scale=80:60,hflip,drawbox=5:5:20:20 -f md5 -; done
        for c in flac libmp3lame libopus libvorbis; do $f -i out/a.mp4 -vn $exact -c:a $c out/$c.mka; $f -i out/$c.mka -f md5 -; done; ffprobe -v error -show_streams out/a.mp4 | grep -c =; ffmpeg -v error -i "$TEXT" x.mp4 2>&1 | sed 's/0x[0-9a-f]*//' | tail -n 1''', needs="ffmpeg"),
    Program("imagemagick", "imagemagick", r'''
        export MAGICK_THREAD_LIMIT=2
        convert -size 200x150 plasma:fractal -seed 1 x.png 2>/dev/null; convert -seed 1 -size 200x150 gradient:red-blue -swirl 90 -colorspace HSL -resize 130x -rotate 17 +noise Gaussian -define png:exclude-chunks=date,time out/a.png
        for t in jpg gif tiff webp bmp ppm pdf; do convert out/a.png -define png:exclude-chunks=date,time -quality 80 x.$t && convert x.$t -depth 8 rgb:- | sha256sum; done 2>/dev/null
        convert out/a.png -blur 0x3 -edge 2 -negate -fft -delete 1 -depth 8 gray:- | sha256sum; compare -metric RMSE out/a.png \( out/a.png -flop \) null: 2>&1 || true; convert out/a.png -fx 'u.r*v.g+sin(i/9)' -depth 8 rgb:- | sha256sum; identify -format '%wx%h %[mean]\n' out/a.png''', needs="convert"),
    Program("ghostscript", "ghostscript poppler-utils groff-base", r'''
        cat >w.ps <<'E'
%!PS
/f { dup 2 ge { dup 1 sub f exch 2 sub f add } if } def
20 f =
1 1 40 { 3 mul dup 72 add moveto 400 300 rlineto stroke } for
gsave 300 300 translate 12 { 30 rotate 0 0 moveto 100 0 lineto 80 40 100 90 50 50 curveto fill } repeat grestore
{ 1 0 div } stopped { $error /errorname get = } if clear
showpage
E
        for d in png16m pbmraw jpeg; do gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=$d -r60 -sOutputFile=out/w.$d w.ps; done; gs -q -dNOPAUSE -dBATCH -sDEVICE=bbox w.ps 2>&1
        groff -man -Tps "$SOURCE/docs/man/etch-rewrite.1" 2>/dev/null >m.ps; gs -q -dNOPAUSE -dBATCH -sDEVICE=pdfwrite -sOutputFile=m.pdf m.ps; pdftotext m.pdf out/m.txt; pdftoppm -r 40 -png m.pdf out/m; pdfinfo m.pdf | grep Pages''', needs="gs pdftotext groff"),
    Program("gnuplot", "gnuplot-nox", r'''gnuplot -e 'set term dumb 70 20; plot sin(x), x / 5; f(x) = a * x ** 2 + b; set fit quiet logfile "/dev/null"; fit f(x) "-" via a, b; print a, b' <<'E'
1 3.1
2 8.8
3 19.2
4 33.1
e
E
        gnuplot -e 'set term svg; set output "out/s.svg"; set isosamples 30; splot x ** 2 - y ** 2' ''', needs="gnuplot"),
    Program("graphviz", "graphviz", r'''{ echo 'digraph g {'; for i in $(seq 2 60); do echo "$i -> $((i / 2)); $i -> $((i * 7 % 61));"; done; echo '}'; } >g; for l in dot neato twopi circo; do $l -Tplain g | sha256sum; $l -Tsvg g >out/$l.svg; done; gvpr 'E { print(head.name) }' g | sort | uniq -c | sort -rn | head -n 2; echo 'graph {' | dot 2>&1 || echo "exit $?"''', needs="dot"),
    Program("sox", "sox", r'''sox -R -n -r 22050 -b 16 out/a.wav synth 2 pluck C4 : synth 1 sine 300-900 remix - 2>&1; sox -R out/a.wav out/b.wav reverb 50 pitch 300 tempo 1.2 rate 16k; sox out/b.wav -n stat 2>&1 | head -n 8''', needs="sox"),
    Program("inkscape", "inkscape", r'''printf '<svg xmlns="http://www.w3.org/2000/svg" width="100" height="80"><rect x="5" y="5" width="40" height="30" fill="#369"/><circle cx="60" cy="40" r="25" fill="red" opacity=".5"/></svg>' >w.svg
        inkscape w.svg --export-type=png -o out/w.png 2>/dev/null; inkscape w.svg --actions='select-all;path-union;export-filename:out/u.svg;export-plain-svg;export-do' 2>/dev/null; inkscape --query-all w.svg 2>/dev/null; ls out''', needs="inkscape"),
    Program("blender", "blender", r'''blender -b --factory-startup --python-expr 'import bpy; bpy.ops.mesh.primitive_monkey_add(); o = bpy.context.object; m = o.modifiers.new("s", "SUBSURF"); m.levels = 2; bpy.ops.object.modifier_apply(modifier="s"); print(len(o.data.vertices), [round(x, 5) for x in o.data.vertices[99].co]); bpy.ops.wm.save_as_mainfile(filepath="w.blend", compress=False)' 2>/dev/null''', needs="blender", times=[(r"\([\d.]+ ?[a-z]*\)", "(T)")]),
    Program("libreoffice", "libreoffice-core", r'''soffice -env:UserInstallation="file://$PWD/lo" --headless --version; printf 'a,b\n1,2\n3,=A2*7\n' >w.csv; timeout 200 soffice -env:UserInstallation="file://$PWD/lo" --headless --convert-to html w.csv 2>&1 | head -n 3; grep -c '<td' w.html || true''', needs="soffice"),
    Program("chromium", "chromium", r'''chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$PWD/u" --virtual-time-budget=2000 --dump-dom "file://$INPUT/work.html" 2>/dev/null''', needs="chromium"),
    Program("firefox", "firefox-esr", r'''mkdir p; export MOZ_HEADLESS=1; timeout 200 firefox-esr --headless --profile "$PWD/p" --window-size 300,200 --screenshot "$PWD/out/s.png" "file://$INPUT/work.html" 2>/dev/null >/dev/null; ls out''', needs="firefox-esr"),
]


def fetched(name, package, path, script):
    """A program of packages.py: $P is its directory, $X the file at `path` there, a pattern."""
    where = packages.DIRECTORY / package
    return Program(name, "", f'P="{where}"; X="$(echo "$P"/{path})"\n{script}', needs=str(where / path), fetched=package)


# Engines without their JIT compilers: what those make is in no file.
FETCHED = [
    fetched("bun", "bun", "package/bin/bun", r'''
        export BUN_JSC_useJIT=0 HOME="$PWD"; "$X" --version; "$X" run "$INPUT/engine.js"; echo 'let a: number = 6; console.log(a * 7)' >t.ts; "$X" run t.ts
        "$X" build --minify t.ts; "$X" run missing.ts || echo "exit $?"'''),
    fetched("deno", "deno", "package/deno", r'''
        export DENO_DIR="$PWD/d" NO_COLOR=1; "$X" eval --v8-flags=--jitless 'console.log(6 * 7)'; "$X" run --v8-flags=--jitless "$INPUT/engine.js"
        echo 'let  a:number=6;console.log(a*7)' | "$X" fmt --ext ts -; "$X" run missing.ts 2>/dev/null || echo "exit $?"'''),
    fetched("playwright-node", "playwright", "playwright/driver/node", r'''"$X" --jitless "$INPUT/engine.js"; "$X" --version'''),
    fetched("workerd", "workerd", "package/bin/workerd", r'''"$X" --version; "$X" compile missing.capnp 2>/dev/null || echo "exit $?"'''),
    fetched("sass", "sass", "package/dart-sass/src/dart", r'''
        echo '$a: 6px; @use "sass:math"; @mixin m($n) { @for $i from 1 through $n { .c-#{$i} { width: $a * $i; color: mix(red, blue, $i * 1%); } } } @include m(60);' >w.scss
        "$X" "$P/package/dart-sass/src/sass.snapshot" --no-source-map w.scss out/w.css 2>&1 || echo "exit $?"; "$X" "$P/package/dart-sass/src/sass.snapshot" --version
        echo 'a { b' | "$X" "$P/package/dart-sass/src/sass.snapshot" --stdin 2>&1 || echo "exit $?"'''),
    fetched("semgrep-core", "semgrep", "*/purelib/semgrep/bin/semgrep-core", r'''
        "$X" -version; printf 'def f(x):\n    if x == x:\n        return eval(x)\n' >w.py; "$X" -dump_ast w.py -lang python 2>&1 | head -n 40
        printf 'int f(int x) { return g(x, x + 1); }\n' >w.c; "$X" -dump_ast w.c -lang c 2>&1 | head -n 40; "$X" -dump_ast missing.c -lang c >/dev/null 2>&1 || echo "exit $?"'''),
    fetched("zig", "zig", "ziglang/zig", r'''
        export ZIG_GLOBAL_CACHE_DIR="$PWD/g" ZIG_LOCAL_CACHE_DIR="$PWD/l" HOME="$PWD"; "$X" version; echo 'const std=@import("std"); pub fn add(a:u32,b:u32) u32 {return a+b;}' >w.zig
        "$X" fmt --stdin <w.zig; "$X" ast-check w.zig; echo 'int f(int a) { return a * 7; }' >w.c; "$X" cc -O2 -c -o out/w.o w.c && nm out/w.o; echo 'pub fn x(' | "$X" fmt --stdin 2>&1 || echo "exit $?"'''),
    fetched("ptxas", "cuda", "nvidia/cuda_nvcc/bin/ptxas", r'''
        printf '.version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p) { .reg .u64 %%a; .reg .u32 %%t; ld.param.u64 %%a, [p]; mov.u32 %%t, %%tid.x; st.global.u32 [%%a], %%t; ret; }\n' >k.ptx
        "$X" --version | tail -n 2; "$X" -arch=sm_70 -v -o k.cubin k.ptx 2>&1 | grep -v 'Compile time'; ls k.cubin; echo bad | "$X" -arch=sm_70 -o x /dev/stdin 2>&1 | head -n 2'''),
    fetched("duckdb", "duckdb", "_duckdb.*.so", r'''PYTHONPATH="$P" python3 <<'E'
import duckdb
for q in ("select sum(range), avg(range * 2) from range(1000000)", "select a % 7 b, count(*), list(a)[:3] from range(5000) t(a) group by b order by b",
          "select * from (select range a, hash(range) % 10 h from range(100)) where h > 8 order by a", "select [1, 2, 3][2], x'00'", "select x from y"):
    try: print(duckdb.sql(q).fetchall())
    except Exception as why: print(type(why).__name__)
E'''),
]


def programs(names=()):
    """All of them, or those named."""
    everything = [*INTERPRETERS, *COMPILERS, *TOOLS, *MEDIA, *FETCHED]
    known = {p.name: p for p in everything}
    if unknown := [n for n in names if n not in known]:
        raise KeyError(f"no program {unknown[0]} in the list")
    return [known[n] for n in names] if names else everything
