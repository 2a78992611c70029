# SPDX-License-Identifier: MIT
"""docs/findings.md keeps true: it has an entry for everything the tool and the library say, and
its examples do what it says of them. docs/formats.md: test_format_readers.py; the man pages: test_man.py."""

import re

import pytest

from conftest import INCLUDE, ROOT, capstone, run, stray
from documents import DOCS, FINDINGS, MAN, code, enum, function, literals


# ---- findings.md: entries -----------------------------------------------------

SOURCES = sorted((ROOT / "tool").rglob("*.[ch]")) + sorted((ROOT / "lib").rglob("*.[ch]"))


def section(title):
    m = re.search(r"^## %s\n(.*?)(?=^## |\Z)" % re.escape(title), FINDINGS, flags=re.S | re.M)
    assert m, title
    return m.group(1)


def headings(text):
    return re.findall(r"^### (.*)$", text, flags=re.M)


def test_every_id_has_an_entry_and_the_reverse():
    emitted = set(re.findall(r"ETCH-[A-Z]\d+", code(*SOURCES)))
    entries = [e for title in ("Findings of etch rewrite", "Findings of etch check", "At run time")
               for e in headings(section(title))]
    assert len(emitted) >= 7
    assert sorted(entries) == sorted(emitted)


def source_reasons():
    """Every phrase for why a load stays a load, a call indirect, or an object is not armed."""
    text = code(*sorted(p for p in (ROOT / "tool").rglob("*.c") if p.parent.name not in ("elf", "dwarf", "input", "output", "kernel")))
    headers = code(*sorted((ROOT / "tool").rglob("*.h")))
    found = set()
    statements = re.findall(r"(?:reason|unarmed_why|\*why)\s*=(?!=)([^;]*);", text)
    for name in ("no_form", "insn_site_form", "addressing_set", "flags_classify", "insn_pv_form", "doubt_reason",
                 "load_place", "call_confirm", "got_entry_make", "place_reason", "use_reason"):
        statements += re.findall(r"return([^;]*);", function(text, name))
    for statement in statements:
        found.update(literals(statement))
        for macro in re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", statement):
            found.update(re.findall(rf'#define {macro} "([^"]*)"', headers))
    return found


def source_words():
    """What `etch inspect` says besides."""
    text = code(*sorted((ROOT / "tool" / "inspect").glob("*.c")))
    found = {word for name in ("armed_text", "linked_because", "unlinked_because") for word in literals(function(text, name))}
    for word in literals(function(text, "unpatched_text")):
        if word.startswith("no: "):
            found.add(word[4:])
    return {w for w in found if "%" not in w}


def test_every_phrase_has_an_entry_and_the_reverse():
    said = source_reasons() | source_words()
    assert len(source_reasons()) > 30
    entries = [e for title in ("a load stays a load", "a call stays indirect", "an object is not armed")
               for e in headings(section(f"Why {title}"))]
    lines = section("Words of etch inspect that are no trouble").split("```")[1].strip("\n").splitlines()
    words = [re.match(r"(?:armed|because|live)? +(\S+(?: \S+)*)", line).group(1) for line in lines if not line.startswith(" " * 10)]
    entries = [e.strip("`") for e in entries + words]
    assert sorted(entries) == sorted(said)
    assert len(set(entries)) == len(entries)


def test_error_codes():
    codes = enum(INCLUDE / "etch" / "imv.h", "etch_error")
    remedies = dict(re.findall(r"^- `(\w+)`[^:]*: (.+)", section("Error codes of libetch"), re.M))
    assert set(remedies) == set(codes) - {"ETCH_OK"} and all(remedies.values())
    man = (MAN / "libetch.3").read_text()
    assert set(re.findall(r"ETCH_E[A-Z]+\b", man)) == set(codes) - {"ETCH_OK"}


def anchors(path):
    out = set()
    for title in re.findall(r"^#+ (.*)$", path.read_text(), flags=re.M):
        out.add(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"))
    return out


@pytest.mark.parametrize("name", ["findings.md", "formats.md"])
def test_links(name):
    for target in re.findall(r"\]\(([^)]+)\)", (DOCS / name).read_text()):
        file, _, anchor = target.partition("#")
        path = DOCS / (file or name)
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), target


# ---- findings.md: examples ------------------------------------------------------

EXAMPLE = re.compile(r"^```(diff )?(c|asm)\b(.*)\n((?:.*\n)*?)```$", re.M)  # with marks for these tests after the language
PRELUDE = dict(re.findall(r"```(c|asm)\n(.*?)```", FINDINGS[:FINDINGS.index("## Findings of etch rewrite")], flags=re.S))
STUB = "#include <etch/imv.h>\nint f(void);\nint main(void) { return f(); }\n"


def side(sign, diff):
    """The lines of one side of a diff."""
    assert all(line[:1] in ("", " ", "+", "-") for line in diff.splitlines())
    return "".join(line[1:] + "\n" for line in diff.splitlines() if line[:1] in ("", " ", sign))


def entry(what):
    return re.search(r"^### `?%s`?\n(.*?)(?=^##|\Z)" % re.escape(what), FINDINGS, flags=re.S | re.M).group(1)


def shown(what):
    """(marks, language, text) of an entry's examples; of one that refers to a finding, what shows that."""
    text = entry(what)
    referred = re.match(r"\nSee \[(ETCH-\w+)\]", text)
    if referred:
        yield from (e for e in shown(referred.group(1)) if e[0][0] == "shows")
    for diff, lang, marks, code in EXAMPLE.findall(text):
        words = marks.split()
        if diff:
            yield ["shows", *words], lang, side("-", code)
            yield ["not", *words], lang, side("+", code)
        else:
            yield words if words[:1] == ["not"] else ["shows", *words], lang, code


def examples():
    """Each by gcc and by clang; in make test by one of them, in turns."""
    number = 0
    for what in [h.strip("`") for h in headings(FINDINGS)]:
        for n, (words, lang, text) in enumerate(shown(what)):
            options = dict(w.split("=", 1) for w in words if "=" in w)
            ccs = [options["cc"]] if "cc" in options else ["gcc"] if lang == "asm" else ["gcc", "clang"]
            number += 1
            for i, cc in enumerate(ccs):
                other = len(ccs) > 1 and i != number % len(ccs)
                yield pytest.param(what, words, options, lang, text, cc, id=f"{what[:40]}-{n}-{cc}",
                                   marks=[pytest.mark.long] * other)


def test_functions_are_where_the_tour_says():
    """`function()` in `file`, and `file`: `function()`."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    path = r"`((?:tool|lib|tests|scripts)/[\w/.]+\.\w+)`"
    found = [*re.findall(rf"`(\w+)\(\)`\s+in\s+{path}", text),
             *((name, where) for where, name in re.findall(rf"{path}:\s+`(\w+)\(\)`", text))]
    assert len(found) > 5
    for name, where in found:
        assert re.search(rf"\b{name}\(", (ROOT / where).read_text()), (name, where)


def test_examples_are_found():
    found = {p.values[0] for p in examples() if "shows" in p.values[1]}
    entries = {e.strip("`") for e in headings(FINDINGS)}
    assert entries - found == {"does not decode"}


class Example:
    def __init__(self, flow, what, words, options, lang, text, cc):
        self.what = what
        flow.cc = cc
        self.flow, self.words, self.said = flow, words, ""
        suffix = "s" if lang == "asm" else "c"
        source = flow.source(("" if "bare" in words else PRELUDE[lang]) + text, f"example.{suffix}")
        flags = ("-O2", *options.get("flags", "").split(",")) if lang == "c" else ()
        obj = flow.tmp / "example.o"
        run([cc, *[f for f in flags if f], f"-I{INCLUDE}", "-c", "-o", obj, source])
        self.path = obj
        if "noobject" not in words and ("check" not in words or "rewrite" in words):
            self.rewrite(obj)
        if {"link", "program", "run"} & set(words):
            objects = [obj, flow.compile(STUB, out="stub.o")] if "link" in words else [obj]
            self.path = flow.tmp / "example"
            lib = [] if "bare" in words else [flow.build / "libetch.a", "-pthread"]
            run([cc, *[f for f in options.get("ldflags", "").split(";") if f], "-o", self.path, *objects, *lib])
            if "renamed" in words:  # a linker that knows .sframe would make its own of it
                run(["objcopy", "--rename-section", ".made.sframe=.sframe", self.path])
            if "trailer" in words:
                self.path.write_bytes(self.path.read_bytes() + b"data")
            if "check" not in words or "rewrite" in words:
                self.rewrite(self.path)
        elif "shared" in words:
            self.path = flow.tmp / "example.so"
            run([cc, "-shared", "-o", self.path, obj, f"-L{flow.build}", "-letch"])
            if "check" not in words or "rewrite" in words:
                self.rewrite(self.path)
        if "check" in words:
            # What etch rewrite said on the way is not what is looked for.
            args = [a for a in options.get("args", "").split(",") if a]
            self.said = run([flow.etch, "check", "--format", "json", "--fail-on", "never", *args, self.path]).stdout
        if "run" in words:
            p = stray([self.path], "warn" if self.what == "ETCH-I102" else "die", ok=None)
            self.status, self.said = p.returncode, p.stderr

    def rewrite(self, path):
        options = ["--no-undo"] if "trailer" in self.words else []  # there is no place for a record
        self.said += self.flow.rewrite(path, *options).stderr

    def phrases(self):
        sites = self.flow.inspect("sites", self.path)["sites"]
        objects = self.flow.inspect("summary", self.path)["objects"]
        return {s["live"].removeprefix("no: ") for s in sites} | {o["because"] for o in objects}


@pytest.mark.parametrize("what,words,options,lang,text,cc", examples())
def test_example(flow_gcc, what, words, options, lang, text, cc):
    e = Example(flow_gcc, what, words, options, lang, text, cc)
    shows = "shows" in words
    assert shows != ("not" in words)
    if what in ("ETCH-D004", "ETCH-D008") and capstone() > 4:
        shows = False  # it knows these instructions, as Zydis does
    if what.startswith("ETCH-"):
        assert (re.search(r"\b%s\b" % what, e.said) is not None) == shows, e.said
        if "run" in words:
            assert e.status == (-11 if shows and what == "ETCH-I101" else 0)
    else:
        assert (what in e.phrases()) == shows, e.phrases()
    if not shows and not {"run", "program", "check"} & set(words):
        # It is quiet because it is well-formed, not because it is empty.
        assert any(s["form"] for s in flow_gcc.inspect("sites", e.path)["sites"]) or what == "ETCH-D002"


def test_werror(flow_gcc):
    obj = flow_gcc.compile("#include <etch/imv.h>\nETCHED int small;\n"
                           "long f(void) { return *(volatile long *)&small; }\n")
    assert "ETCH-I002: f: " in flow_gcc.rewrite(obj, args=["--werror"], ok=1).stderr
    assert "ETCH-I002: f: " in flow_gcc.rewrite(obj).stderr
