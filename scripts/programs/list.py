# SPDX-License-Identifier: MIT
"""The programs that must give the same output rewritten and not.

Each has a script for sh -e, which runs in an empty directory with out/ in it. Its output,
what it writes to stderr, its exit status and the contents of all files in out/ are compared byte for
byte. `times` are the only things taken out before, and each says what is a time there. What
programs are given is of this repository, or made by the scripts: nothing depends on what else is installed.

    import list
    for program in list.programs():
        program.prepare(root)           # which files it loads; rewritten into the Root
        before = program.run()          # in the system as it is
        after = program.run(root, {"LD_PRELOAD": "..."})
"""

from program import Program

CC1 = "/usr/lib/gcc/x86_64-linux-gnu/12/cc1"

INTERPRETERS = [
    Program("python3", "python3", 'python3 "$INPUT/work.py"', needs="python3", short=True),
    Program("perl", "perl", 'perl "$INPUT/work.pl" "$TEXT"', needs="perl", short=True),
]

COMPILERS = [
    Program("cc1", "gcc", r'''
        for o in -O0 "-O2 -g" "-Os -fno-pic"; do
            for f in lookup unwind; do
                $(gcc -print-prog-name=cc1) -quiet -D_GNU_SOURCE -I "$SOURCE/lib" -I "$SOURCE/lib/include" -imultiarch x86_64-linux-gnu \
                    $o "$SOURCE/lib/$f.c" -o "out/$f$(echo "$o" | tr -d ' ').s"
            done
        done''', needs="gcc"),
]

TOOLS = [
    Program("git", "git", r'''
        export GIT_AUTHOR_DATE="2001-01-01T00:00:00Z" GIT_COMMITTER_DATE="2001-01-01T00:00:00Z"
        git init -q -b main r; cd r
        git config user.name A; git config user.email a@b; git config pack.threads 1
        for n in 1 2 3 4 5; do
            split -l $((n * 900)) "$TEXT" part-; git add .; git commit -q -m "change $n"
        done
        git log --stat | sha256sum; git log -p | sha256sum; git diff HEAD~2 --shortstat
        git blame part-aa | tail -n 3; git grep -c the | head -n 5
        git checkout -q -b side HEAD~2; echo x >side; git add side; git commit -q -m side; git merge -q -m merged main; git log --oneline --graph
        git repack -a -d -q; git fsck --strict; git count-objects -v | grep -v size
        git clone -q . ../c; git -C ../c rev-parse HEAD; git archive HEAD | sha256sum; git bundle create -q ../out/b --all''',
            needs="git", short=True),
    Program("openssl", "openssl", r'''
        for d in md5 sha1 sha256 sha512 sha3-256 blake2b512; do openssl dgst -$d "$TEXT"; done
        for c in aes-128-cbc aes-256-ctr chacha20 camellia-256-cbc aria-128-cbc; do
            openssl enc -$c -K 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f -iv 0102030405060708090a0b0c0d0e0f10 \
                -in "$TEXT" -out out/$c
        done 2>&1
        openssl genrsa -out k 2048; openssl req -new -x509 -key k -subj /CN=etch -out c
        openssl dgst -sha256 -sign k -out s "$TEXT"; openssl x509 -in c -noout -subject; openssl rsa -in k -pubout -out p 2>/dev/null
        openssl dgst -sha256 -verify p -signature s "$TEXT"; openssl verify -CAfile c c
        openssl speed -seconds 1 -bytes 1024 sha256 aes-128-cbc 2>&1 | grep '^Doing\|^sha256\|^AES\|aes'
        openssl prime -generate -bits 256 | wc -l''', needs="openssl", short=True,
            # How many blocks in how long, and what that makes a second.
            times=[(r"\d+ (sha256|aes-128-cbc)( ops|'s) in [\d.]+s", r"N \1\2 in Ts"), (r"[\d.]+k", "Nk")]),
]


def programs(names=()):
    """All of them, or those named."""
    everything = [*INTERPRETERS, *COMPILERS, *TOOLS]
    known = {p.name: p for p in everything}
    if unknown := [n for n in names if n not in known]:
        raise KeyError(f"no program {unknown[0]} in the list")
    return [known[n] for n in names] if names else everything
