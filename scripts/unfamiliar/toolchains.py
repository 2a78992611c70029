# SPDX-License-Identifier: MIT
"""Files of toolchains that etch was not made with, and what each is asked to do (see Trial in trial.py).

Tasks give the same output each time they are run, without times and addresses. `step` is left empty where execution leaves
files: in code that is generated while the program runs, there are no rows to check, and every stack has such code. So is it
where Python would take too many instructions to get there.
"""

from trial import Trial

THRICE = "for i in 1 2 3; do ./prog; done"
GCCGO = 'gccgo-12 -O2 -o prog "$WORK/work.go"'
COBOL = 'cobc -x -o prog "$WORK/work.cob"'

PROGRAMS_OF_LLVM = [
    Trial("crystal", "Crystal 1.6 (LLVM 14)", "crystal", "/usr/bin/crystal", """
        crystal eval 'puts 6 * 7'
        crystal tool format --check "$WORK/work.cr" || echo "not formatted"
        crystal build --no-codegen "$WORK/work.cr" && echo typed""", step="/usr/bin/crystal env", skip=200_000),
    Trial("crystal-program", "Crystal 1.6 (LLVM 14)", "crystal", "$DIR/prog", THRICE, make='crystal build -o prog "$WORK/work.cr"',
          step="$DIR/prog", skip=100_000, steps=300_000),
    Trial("crystal-release", "Crystal 1.6 (LLVM 14) --release", "crystal", "$DIR/prog", THRICE,
          make='crystal build --release --no-debug -o prog "$WORK/work.cr"', step="$DIR/prog", skip=100_000, steps=300_000),
    Trial("ldc-program", "LDC 1.30, D", "ldc", "$DIR/prog", THRICE, make='ldc2 -O2 -of=prog "$WORK/work.d"', step="$DIR/prog",
          steps=300_000),
    Trial("dub", "LDC 1.30, D", "dub ldc", "/usr/bin/dub", r"""
        mkdir -p out/p/source && cd out/p && echo '{"name":"p","targetType":"executable"}' >dub.json && cp "$WORK/work.d" source/app.d
        dub describe --data=source-files --data-list
        dub build --compiler=ldc2 -q && ./p
        cd .. && rm -rf p .dub""", step="/usr/bin/dub list"),
    Trial("flang-program", "LLVM Flang 16, Fortran", "flang-16", "$DIR/prog", "./prog",
          make='flang-new-16 -flang-experimental-exec -O2 -o prog "$WORK/work.f90"', step="$DIR/prog", steps=200_000),
]

ASSEMBLERS = [
    Trial("fasm", "flat assembler 1.73, by itself", "fasm", "/usr/bin/fasm",
          'cp "$WORK/work.fasm" out && cd out && fasm work.fasm work | head -1 && chmod +x work && ./work',
          refused="is not a 64-bit ELF file"),
    Trial("fasm-program", "flat assembler 1.73", "fasm", "$DIR/prog", "./prog", make='fasm "$WORK/work.fasm" prog && chmod +x prog',
          refused="has no section headers"),
    Trial("nasm-program", "NASM 2.16", "nasm", "$DIR/prog", "./prog", make='nasm -f elf64 -o work.o "$WORK/work.asm" && ld -o prog work.o',
          step="$DIR/prog"),
    Trial("yasm-program", "Yasm 1.3", "yasm", "$DIR/prog", "./prog",
          make='yasm -f elf64 -o work.o "$WORK/work.asm" && ld -s -o prog work.o', step="$DIR/prog"),
]

COMPILERS = [
    Trial("pcc-program", "pcc 1.2, C", "pcc", "$DIR/prog", "./prog; echo $?", make='pcc -o prog "$WORK/work.c"', step="$DIR/prog"),
    Trial("pcc-optimized", "pcc 1.2 -O, C", "pcc", "$DIR/prog", "./prog; echo $?", make='pcc -O -o prog "$WORK/work.c"',
          step="$DIR/prog"),
    Trial("cobol-program", "GnuCOBOL 4", "gnucobol4", "$DIR/prog", "./prog", make=COBOL, step="$DIR/prog", steps=200_000),
    Trial("libcob", "GnuCOBOL 4", "gnucobol4", "/usr/lib/x86_64-linux-gnu/libcob.so.5", "./prog", make=COBOL, step="$DIR/prog",
          skip=100_000, steps=200_000),
    Trial("gccgo-program", "gccgo 12, Go on split stacks", "gccgo-12", "$DIR/prog", THRICE, make=GCCGO, step="$DIR/prog",
          steps=200_000),
    Trial("gccgo-static", "gccgo 12 -static-libgo", "gccgo-12", "$DIR/prog", THRICE, make=f"{GCCGO} -static-libgo", step="$DIR/prog",
          steps=200_000),
    Trial("libgo", "gccgo 12, Go on split stacks", "gccgo-12", "/usr/lib/x86_64-linux-gnu/libgo.so.21", THRICE, make=GCCGO,
          step="$DIR/prog", skip=200_000, steps=200_000),
    Trial("gm2-program", "GNU Modula-2 12", "gm2", "$DIR/prog", "./prog",
          make='gm2 -O2 -flibs=m2pim,m2iso,m2cor -o prog "$WORK/work.mod"', step="$DIR/prog", steps=200_000),
    Trial("ghdl", "GHDL 2.0, by GNAT", "ghdl-mcode", "/usr/bin/ghdl-mcode",
          'cd out && ghdl-mcode -a "$WORK/work.vhdl" && ghdl-mcode -r work1 2>&1; rm -f *.cf',
          step="/usr/bin/ghdl-mcode -s $WORK/work.vhdl", steps=300_000),
    Trial("objc-program", "GNU Objective-C 12", "gobjc", "$DIR/prog", "./prog",
          make='gcc -fobjc-exceptions -o prog "$WORK/work.m" -lobjc', step="$DIR/prog"),
    Trial("fpc-program", "Free Pascal 3.2", "fp-compiler fp-units-rtl fp-units-base fp-units-fcl", "$DIR/prog", "./prog",
          make='fpc -O2 -FE. -oprog "$WORK/work.pas"', step="$DIR/prog", steps=200_000),
    Trial("vala-program", "Vala 0.56", "valac libglib2.0-dev", "$DIR/prog", "./prog",
          make='valac -X -O2 --directory=. -o prog "$WORK/work.vala"', step="$DIR/prog", steps=200_000),
    Trial("ats-program", "ATS2 0.4", "ats2-lang", "$DIR/prog", "./prog",
          make='cp "$WORK/work.dats" . && patscc -O2 -DATS_MEMALLOC_LIBC -o prog work.dats', step="$DIR/prog"),
    Trial("gprolog-program", "GNU Prolog 1.4, its own compiler", "gprolog", "$DIR/prog", "./prog",
          make='gplc --no-top-level -o prog "$WORK/work.pl"', step="$DIR/prog", skip=600_000, steps=300_000),
    Trial("poly-program", "Poly/ML 5.7, its own compiler", "polyml libpolyml-dev", "$DIR/prog", "./prog",
          make='polyc -o prog "$WORK/work.sml"', step="$DIR/prog", skip=600_000, steps=300_000),
    Trial("poly", "Poly/ML 5.7, its own compiler", "polyml libpolyml-dev", "/usr/bin/poly",
          '(cat "$WORK/work.sml"; echo "; main ();") | poly -q --error-exit', step="/usr/bin/poly -v", steps=200_000),
    Trial("picolisp", "PicoLisp 23.2, its own compiler", "picolisp", "/usr/bin/picolisp", 'picolisp "$WORK/work.l"',
          step="/usr/bin/picolisp $WORK/work.l", steps=300_000),
    Trial("mono-aot", "Mono 6.8 --aot, C#", "mono-mcs mono-runtime", "$DIR/work.exe.so", "mono work.exe",
          make='mcs -out:work.exe "$WORK/work.cs" && mono --aot work.exe'),
]

LISPS = [
    Trial("libecl", "ECL 21.2, by C", "ecl", "/usr/lib/x86_64-linux-gnu/libecl.so.21.2", 'ecl --norc --shell "$WORK/work.lisp"',
          step="/usr/bin/ecl --norc --shell $WORK/work.lisp", skip=3_000_000, steps=300_000),
    Trial("ecl-program", "ECL 21.2, by C", "ecl", "$DIR/prog", "./prog", make="""
        cp "$WORK/work.lisp" .
        ecl --norc --eval '(require :cmp)' --eval '(compile-file "work.lisp" :system-p t)' \
            --eval '(c:build-program "prog" :lisp-files (list "work.o") :epilogue-code (quote (ext:quit)))' --eval '(ext:quit)'""",
          step="$DIR/prog", skip=3_000_000, steps=200_000),
    Trial("clisp", "GNU CLISP 2.49", "clisp", "/usr/lib/clisp-2.49.93+/base/lisp.run", 'clisp -q -norc "$WORK/work.lisp"',
          step="/usr/lib/clisp-2.49.93+/base/lisp.run -B /usr/lib/clisp-2.49.93+ -M /usr/lib/clisp-2.49.93+/base/lispinit.mem"
               " -q -norc $WORK/work.lisp", skip=500_000, steps=300_000),
    Trial("clisp-image", "GNU CLISP 2.49, saved executable", "clisp", "$DIR/prog", "./prog", make="""
        clisp -q -norc -x '(progn (defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
            (ext:saveinitmem "prog" :executable t :quiet t :norc t :init-function (lambda () (print (fib 15)) (ext:exit))))'""",
          step="$DIR/prog", skip=200_000, steps=200_000, refused="data after the last section"),
    Trial("newlisp", "newLISP 10.7", "newlisp", "/usr/bin/newlisp", 'newlisp "$WORK/work.lsp"', step="/usr/bin/newlisp $WORK/work.lsp",
          steps=300_000),
    Trial("newlisp-program", "newLISP 10.7, script appended", "newlisp", "$DIR/prog", "./prog",
          make='cp "$WORK/work.lsp" . && newlisp -x work.lsp prog && chmod +x prog', step="$DIR/prog", steps=200_000,
          refused="data after the last section"),
    Trial("sbcl", "SBCL 2.2", "sbcl", "/usr/bin/sbcl",
          'cat "$WORK/work.lisp" "$WORK/callback.lisp" >out/both.lisp; sbcl --script out/both.lisp'),
    Trial("sbcl-image", "SBCL 2.2, saved executable", "sbcl", "$DIR/prog", "./prog", make="""
        cp "$WORK/work.lisp" .
        sbcl --non-interactive --no-userinit --eval '(progn (load (compile-file "work.lisp"))
            (save-lisp-and-die "prog" :executable t :toplevel (lambda () (load "work.fasl") (exit))))'""",
          refused="data after the last section"),
    Trial("gcl", "GCL 2.6, by C and unexec", "gcl", "/usr/lib/gcl-2.6.14/unixport/saved_ansi_gcl", 'GCL_ANSI=t gcl -f "$WORK/work.lisp"',
          refused="its heap begins right after its last segment"),
    Trial("maxima", "GCL 2.6, by C and unexec", "maxima", "/usr/lib/maxima/5.46.0/binary-gcl/maxima",
          "echo 'factor(x^20-1); integrate(sin(x)^3*exp(x),x); 100!; taylor(tan(x),x,0,9);' | maxima -q",
          refused="its heap begins right after its last segment"),
]

SCHEMES = [
    Trial("stalin-program", "Stalin 0.11, by C", "stalin", "$DIR/prog", "./prog",
          make='cp "$WORK/work.scm" work.sc && stalin -On -copt -O2 work && mv work prog', step="$DIR/prog"),
    Trial("scheme48", "Scheme 48 1.9 (Pre-Scheme)", "scheme48", "/usr/lib/scheme48-1.9.2/scheme48vm",
          'echo ",load $WORK/work.scm" | scheme48 -a batch',
          step="/usr/lib/scheme48-1.9.2/scheme48vm -i /usr/lib/scheme48-1.9.2/scheme48.image -a batch", skip=200_000),
    Trial("mit-scheme", "MIT Scheme 12.1", "mit-scheme", "/usr/bin/mit-scheme-x86-64", 'mit-scheme --quiet <"$WORK/work.scm"',
          step="/usr/bin/mit-scheme-x86-64 --quiet --load $WORK/work.scm --eval (exit)", steps=200_000),
    Trial("chez", "Chez Scheme 9.5", "chezscheme", "/usr/bin/chezscheme", 'chezscheme --script "$WORK/work.scm"'),
    Trial("racket", "Racket CS 8.7", "racket", "/usr/bin/racket", 'racket "$WORK/work.rkt"'),
    Trial("gambit-program", "Gambit 4.9, by C", "gambc", "$DIR/prog", "./prog", make='cp "$WORK/work.scm" . && gsc -exe -o prog work.scm',
          step="$DIR/prog", skip=1_000_000, steps=200_000),
    Trial("libgambit", "Gambit 4.9, by C", "gambc", "/usr/lib/x86_64-linux-gnu/gambit4/libgambit.so.4.9.3", 'gsi "$WORK/work.scm"',
          step="/usr/bin/gsi $WORK/work.scm", skip=1_000_000, steps=200_000),
    Trial("chicken-program", "CHICKEN 5.3, by C", "chicken-bin libchicken-dev", "$DIR/prog", "./prog",
          make='csc -O3 -o prog "$WORK/work.scm"', step="$DIR/prog", skip=100_000, steps=200_000),
    Trial("libchicken", "CHICKEN 5.3, by C", "chicken-bin libchicken-dev", "/usr/lib/libchicken.so.11", 'csi -s "$WORK/work.scm"',
          step="/usr/bin/csi -s $WORK/work.scm", skip=500_000, steps=200_000),
]

INTERPRETERS = [
    Trial("algol68g", "Algol 68 Genie 3.1", "algol68g", "/usr/bin/a68g", """
        a68g "$WORK/work.a68"
        cd out && cp "$WORK/work.a68" . && a68g -O2 --compile work.a68 && LD_LIBRARY_PATH=. ./work
        ls; rm -f * .a68g*""",
          step="/usr/bin/a68g $WORK/work.a68", steps=300_000),
    Trial("neko", "Neko 2.3", "neko", "/usr/bin/neko", "neko work.n", make='cp "$WORK/work.neko" . && nekoc work.neko',
          step="/usr/bin/neko $DIR/work.n", steps=200_000),
    Trial("icon", "Icon 9.4", "icont iconx", "/usr/bin/iconx", "./prog", make='cp "$WORK/work.icn" . && icont -s -o prog work.icn',
          step="/usr/bin/iconx $DIR/prog", steps=200_000),
    Trial("klibc-sh", "klibc 2.0, with its own loader", "klibc-utils", "/usr/lib/klibc/bin/sh",
          "/usr/lib/klibc/bin/sh -c 'f() { if [ $1 -lt 2 ]; then echo $1; else echo $(($(f $(($1 - 1))) + $(f $(($1 - 2))))); fi; }; f 8;"
          " for i in a b c; do case $i in b) trap \"echo left\" 0;; *) echo ${i}x;; esac; done'",
          step="/usr/lib/klibc/bin/sh -c 'i=0; while [ $$i -lt 40 ]; do i=$$((i + 1)); done; echo $$i'"),
    Trial("klibc-gzip", "klibc 2.0, with its own loader", "klibc-utils", "/usr/lib/klibc/bin/gzip", """
        /usr/lib/klibc/bin/gzip -c /usr/bin/env | gzip -dc | cksum
        cat /usr/lib/klibc/bin/[a-f]* | gzip | /usr/lib/klibc/bin/gzip -dc | cksum""",
          step="/usr/lib/klibc/bin/gzip -c /usr/lib/klibc/bin/cat"),
    Trial("gforth", "Gforth 0.7", "gforth", "/usr/bin/gforth-fast-0.7.3", 'gforth-fast "$WORK/work.fs"'),
    Trial("pforth", "pForth 2.0", "pforth", "/usr/bin/pforth", """
        echo ': fib dup 2 < if exit then dup 1- recurse swap 2 - recurse + ; 20 fib . bye' | pforth""",
          step="/usr/bin/pforth -q", skip=50_000),
    Trial("libswipl", "SWI-Prolog 9.0", "swi-prolog-nox", "/usr/lib/x86_64-linux-gnu/libswipl.so.9.0.4", 'swipl "$WORK/work.pl"',
          step="/usr/bin/swipl $WORK/work.pl", skip=1_000_000, steps=200_000),
    Trial("regina", "Regina REXX 3.6", "regina-rexx", "/usr/bin/rexx", 'rexx "$WORK/work.rexx"', step="/usr/bin/rexx $WORK/work.rexx",
          steps=200_000),
    Trial("hugs", "Hugs 98", "hugs", "/usr/bin/runhugs", 'runhugs "$WORK/work.hs"', step="/usr/bin/runhugs $WORK/work.hs", skip=1_000_000,
          steps=200_000),
    Trial("pike", "Pike 8.0", "pike8.0-core", "/usr/bin/pike8.0", 'pike8.0 "$WORK/work.pike"'),
    Trial("libmoar", "MoarVM 2022.12 (DynASM), Raku", "moarvm rakudo", "/usr/lib/moar/libmoar.so", 'raku "$WORK/work.raku"'),
]

OF_PYPI = [
    Trial("libwasmtime", "Wasmtime (Rust, Cranelift)", "wasmtime", "$SITE/wasmtime/linux-x86_64/_libwasmtime.so",
          '"$VENV/bin/python" "$WORK/wasm.py" run', installer="pip"),
    Trial("wasmtime-module", "Cranelift, a compiled module", "wasmtime", "$DIR/work.cwasm",
          '"$VENV/bin/python" "$WORK/wasm.py" load work.cwasm', make='"$VENV/bin/python" "$WORK/wasm.py" compile work.cwasm',
          installer="pip", refused="is in the private format of another program"),
    Trial("pyinstaller-program", "PyInstaller, archive appended", "pyinstaller", "$DIR/prog", "./prog",
          make='"$VENV/bin/pyinstaller" -F --distpath . -n prog "$WORK/frozen.py"', step="$DIR/prog", installer="pip"),
    Trial("mypyc", "mypyc, Python by C", "mypy", "$SITE/*__mypyc.cpython-*-x86_64-linux-gnu.so",
          '"$VENV/bin/python" -m mypy --cache-dir=/dev/null "$WORK/checked.py" || [ $? = 1 ]', installer="pip"),
    Trial("ptxas", "NVIDIA's ptxas", "nvidia-cuda-nvcc", "$SITE/nvidia/cu13/bin/ptxas", """
        "$FILE" -arch=sm_80 "$WORK/work.ptx" -o out/work.cubin; cksum <out/work.cubin
        echo bad >out/bad.ptx; "$FILE" out/bad.ptx -o out/bad; echo "exit $?" """, installer="pip"),
    Trial("iree-compile", "IREE (MLIR, LLVM)", "iree-base-compiler", "$SITE/iree/compiler/_mlir_libs/libIREECompiler.so", """
        "$VENV/bin/iree-compile" --iree-hal-target-backends=llvm-cpu --compile-to=executable-sources "$WORK/work.mlir"
        "$VENV/bin/iree-compile" --iree-hal-target-backends=llvm-cpu "$WORK/work.mlir" -o out/w && stat -c %s out/w && rm out/w""",
          installer="pip"),
    Trial("mojo", "Mojo (its own compiler, LLVM)", "mojo-compiler mojo-compiler-mojo-libs", "$SITE/modular/bin/mojo",
          'MODULAR_CRASH_REPORTING_ENABLED=0 "$VENV/bin/mojo" run "$WORK/work.mojo" 2>&1 | grep -v Crashpad', installer="pip"),
]

TRIALS = [*PROGRAMS_OF_LLVM, *ASSEMBLERS, *COMPILERS, *LISPS, *SCHEMES, *INTERPRETERS, *OF_PYPI]
