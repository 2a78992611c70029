# SPDX-License-Identifier: MIT
"""Every byte that a file's author chose, in every place that etch shows: nothing of it reaches a terminal that acts on it,
makes a line or a column, or changes how other text is displayed (tool/support/plain.h)."""

import json
import os
import re
import subprocess
import unicodedata

import pytest

from conftest import INCLUDE, run

MARK = b"HOSTILE_HOSTILE_"  # 16 bytes, in all names of the files below; replaced by 16 others

NAMES = {
    "C1, override, tag, zero width": "\x9b31m\u202e\U000e0041\u200bx".encode(),
    "escape, OSC, separator, isolate": b"\x1b[31m\xc2\x9dx" + "\u2028\u2066\x85".encode(),
    "marks without width": "\ufeff\u061c\u2060\ufe0f\u034f\u3164".encode(),
    "not UTF-8": b"\x9b31m\xff\xfe\xc0\x9babcdef\xe2\x80",
    "C0": b"\n\t\r\x7f\x08ab\x07c\x0b\x0c\x01d\x0e\x0f\n",
}
assert all(len(n) == 16 for n in NAMES.values())

SOURCE = r'''
#include <etch/imv.h>
struct HOSTILE_ops { int HOSTILE_field; int other; };
extern struct HOSTILE_ops HOSTILE_object ETCHED;
struct HOSTILE_ops HOSTILE_object = {1, 2};
DEFINE_IMV(int, HOSTILE_value) = 3;
extern int *HOSTILE_escape;
int *HOSTILE_escape;
__attribute__((noinline, section(".text.HOSTILE_section"))) int HOSTILE_function(int x)
{
	switch (x) { case 0: return HOSTILE_object.HOSTILE_field; case 1: return 7; case 2: return 9; case 3: return 11; case 4: return 2; }
	HOSTILE_escape = &HOSTILE_object.other;
	return x + imv_read(HOSTILE_value);
}
asm(".text\n.globl HOSTILE_bad\n.type HOSTILE_bad, @function\nHOSTILE_bad: push %rbx\nret\n.size HOSTILE_bad, .-HOSTILE_bad\n"
    ".globl HOSTILE_past\n.type HOSTILE_past, @function\nHOSTILE_past: push %rbx\nxor %eax, %eax\n.size HOSTILE_past, .-HOSTILE_past");
int HOSTILE_bad(void), HOSTILE_past(void);
int main(int c, char **v) { return HOSTILE_function(c) + (c > 9 ? HOSTILE_bad() + HOSTILE_past() : 0); }
'''


@pytest.fixture(scope="module")
def made(build, etch, tmp_path_factory):
    """name -> bytes with MARK in every name."""
    tmp = tmp_path_factory.mktemp("hostile")
    mark = MARK.decode()
    (tmp / f"{mark}.c").write_text(SOURCE.replace("HOSTILE_", mark))
    out = {}
    for level in ("1", "2"):
        run(["gcc", "-g", f"-O{level}", "-fPIE", f"-I{INCLUDE}", "-c", "-o", tmp / "main.o", f"{mark}.c"], cwd=tmp)
        out[f"plain{level}.o"] = (tmp / "main.o").read_bytes()
        run([etch, "rewrite", tmp / "main.o"])
        run(["gcc", "-pie", "-rdynamic", "-o", tmp / "main", tmp / "main.o", build / "libetch.a", "-pthread"])
        out[f"main{level}"] = (tmp / "main").read_bytes()
        run([etch, "rewrite", tmp / "main"])
        run(["ar", "rc", tmp / "lib.a", tmp / "main.o"])
        (tmp / "lib.a").rename(tmp / f"{mark}.a")
        out[f"archive{level}.a"] = (tmp / f"{mark}.a").read_bytes().replace(b"main.o/" + b" " * 9, MARK[:15] + b"/")
        (tmp / f"{mark}.a").unlink()
        out[f"rewritten{level}.o"], out[f"rewritten{level}"] = (tmp / "main.o").read_bytes(), (tmp / "main").read_bytes()
    return out


def commands(name):
    """Label -> arguments. FILE, OTHER: files; ODD: a file of that name that is none."""
    views = ["summary", "sites", "fields", "marks", "orc", "cfi", "tables", "code"]
    for view in views:
        for form in ("text", "tsv", "json"):
            if not (view in ("code",) and form == "tsv"):
                yield f"inspect {view} {form}", ["inspect", view, *(["main"] if view == "code" else []), "--format", form, "FILE"]
    for form in ("text", "json", "sarif"):
        yield f"check {form}", ["check", "--level", "note", "--format", form, "FILE"]
    for form in ("text", "json"):
        yield f"diff {form}", ["diff", "--format", form, "FILE", "OTHER"]
    yield "diff functions", ["diff", "--all", "FILE", "OTHER"]
    yield "rewrite", ["rewrite", "-v", "-o", "OUT", "FILE"]
    yield "rewrite in doubt", ["rewrite", "-v", "--no-cfi", "-o", "OUT", "FILE"]
    yield "check an archive", ["check", "ARCHIVE"]
    yield "inspect an archive", ["inspect", "summary", "ARCHIVE"]
    yield "profile", ["profile", "--", "FILE"]
    yield "heap", ["heap", "--", "FILE"]
    yield "objtool", ["objtool", "--orc", "--ibt", "--stackval", "--mcount", "OBJECT"]
    yield "status", ["tables", "status", "FILE"]
    yield "status tsv", ["tables", "status", "--format", "tsv", "FILE"]
    yield "status of a directory", ["tables", "status", "--directory", "DIRECTORY"]
    yield "update", ["tables", "update", "-v", "--directory", "DIRECTORY", "FILE", "ODD"]
    yield "clear", ["tables", "clear", "--directory", "DIRECTORY"]
    for command in (["check"], ["rewrite"], ["inspect"], ["diff", "FILE"], ["tables", "update", "--directory"], ["rewrite", "--undo"],
                    ["rewrite", "--sidecar", "DIRECTORY"], ["check", "--baseline", "ODD"], ["check", "--suppressions", "ODD"],
                    ["inspect", "code", "NAME"], ["inspect", "NAME"], ["tables", "NAME"], ["NAME"], ["check", "--NAME"],
                    ["rewrite", "--only", "NAME"], ["check", "--ignore", "NAME"], ["stat", "-e", "NAME", "--"], ["check", "--format", "NAME"],
                    ["check", "-j", "NAME"], ["inspect", "code", "--NAME"], ["stat", "--"], ["heap", "--"], ["profile", "--"], ["objtool", "--orc"]):
        yield " ".join(command) + " ODD", [*command, "ODD"]


def bad_in(text, tsv):
    """The first character of the output that may not be there."""
    for c in text:
        if c == "\n" or (tsv and c == "\t"):
            continue
        if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs") or c in "\u034f\u3164\ufe0f\U000e0041":
            return f"{c!r} in ...{text[max(0, text.index(c) - 60):text.index(c) + 20]!r}"
    return None


@pytest.mark.parametrize("kind", NAMES)
def test_names_in_every_place(etch, made, tmp_path, kind):
    name = NAMES[kind]
    folder = os.fsencode(tmp_path) + b"/d" + name.replace(b"/", b"_")
    os.mkdir(folder)
    for file, data in made.items():
        with open(folder + b"/" + file.encode() + name, "wb") as f:
            f.write(data.replace(MARK, name))
        os.chmod(folder + b"/" + file.encode() + name, 0o755)
    odd = folder + b"/odd" + name
    with open(odd, "wb") as f:
        f.write(b"\x7fELF" + name * 9)
    wrong, shown = [], 0
    pairs = [("rewritten1", "rewritten2"), ("plain1.o", "rewritten2.o")]
    for label, argv in commands(name):
        for file, other in pairs if "FILE" in argv else pairs[:1]:
            if (label.startswith(("status", "update", "profile", "heap")) or "marks" in label) and file.endswith(".o"):
                continue
            places = {"FILE": folder + b"/" + file.encode() + name, "OTHER": folder + b"/" + other.encode() + name, "ODD": odd,
                      "DIRECTORY": folder + b"/tables" + name, "OUT": os.fsencode(tmp_path) + b"/out", "ARCHIVE": folder + b"/archive1.a" + name, "OBJECT": folder + b"/plain1.o" + name, "NAME": name}
            full = [etch, *(places.get(a, a.replace("NAME", os.fsdecode(name)) if isinstance(a, str) else a) for a in argv)]
            p = subprocess.run(full, stdin=subprocess.DEVNULL, capture_output=True, cwd=tmp_path, timeout=120)
            for stream, raw in (("stdout", p.stdout), ("stderr", p.stderr)):
                try:
                    text = raw.decode()
                except UnicodeDecodeError as e:
                    wrong.append(f"{label} {file} {stream}: not UTF-8: {raw[max(0, e.start - 60):e.start + 20]!r}")
                    continue
                bad = bad_in(text, "tsv" in label)
                if bad:
                    wrong.append(f"{label} {file} {stream}: {bad}")
            if "tsv" in label and p.stdout and not bad_in(p.stdout.decode(errors="replace"), True):
                lines = p.stdout.decode().splitlines()
                if len({line.count("\t") for line in lines if not line.startswith("#")}) > 1 and "summary" not in label and "tables" not in label:
                    wrong.append(f"{label} {file}: rows of several widths")
            if ("json" in label or "sarif" in label) and p.stdout:
                json.loads(p.stdout)
            shown += bool(re.search(rb"\?\?|\\x|\\u|\xef\xbf\xbd", p.stdout + p.stderr))
    assert not wrong, "\n".join(wrong)
    assert shown > 20    # the names were there, in a form that does no harm

