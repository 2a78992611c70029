#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every ELF file of this machine, rewritten into a scratch root and looked at there by
eu-elflint, readelf, ldd, a reader of .eh_frame, and etch rewrite --undo. See docs/survey.md.

    scripts/survey.py [PATH...]           # default: /usr/bin /usr/sbin /usr/lib
    scripts/survey.py --install           # first, packages that make it worth while (6 GB, and 3 GB from npm and PyPI)

No file outside of the scratch directory is written. What has been looked at is in
results.jsonl there: a survey that was stopped goes on where it was. Files are looked at again when
they are others, or etch is and writes other bytes. Exit status 1 if a file failed.
"""

import argparse
import collections
import dataclasses
import hashlib
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import packages  # noqa: E402
import pinned  # noqa: E402,F401
import survey_rows  # noqa: E402
from elftools.common.exceptions import ELFError  # noqa: E402
from progress import Progress  # noqa: E402

ROOTS = ["/usr/bin", "/usr/sbin", "/usr/lib"]
# Large programs, and small ones by other compilers than Debian's gcc. By apt-get alone.
PACKAGES = """
chromium firefox-esr openjdk-17-jdk-headless nodejs llvm-14 llvm-15 llvm-16 clang-14 clang-15 lld-15 bolt-16 postgresql
mariadb-server-core redis-server ffmpeg imagemagick gimp inkscape blender libreoffice-core libqt5webengine5
libgl1-mesa-dri mesa-vulkan-drivers qemu-system-x86 qemu-user qemu-utils gdb-multiarch binutils-multiarch
wireshark-common samba bind9 nginx-light vim-nox r-base-core gnuplot-nox sqlite3 php-cli ruby pypy3 luajit
golang-go rustc cargo ghc ocaml-nox gnat gfortran gdc ldc fpc mono-runtime sbcl erlang-base elixir guile-3.0
swi-prolog-nox gprolog racket nim crystal tcc musl-tools dietlibc-dev busybox-static
""".split()
UNREADABLE = (survey_rows.Unreadable, survey_rows.rows.Inspect, survey_rows.rows.Odd, ELFError, IndexError, KeyError, ValueError)
LIMIT = 1800  # seconds for one program over one file


# ---- which files --------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class File:
    path: str
    size: int
    bits: int      # 32, 64
    machine: int
    kind: int      # e_type

    @property
    def is_ours(self):
        """x86-64 with 64-bit addresses: what etch is for. x32 is not."""
        return self.bits == 64 and self.machine == 62 and self.kind in (1, 2, 3)


def has_no_code(path):
    """A debug file, as objcopy --only-keep-debug makes them: code is NOBITS, says readelf."""
    listing = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, errors="replace").stdout
    code = [line for line in listing.splitlines() if re.search(r"\] \.text ", line)]
    return all(" NOBITS " in line for line in code)


KINDS = {1: "object", 2: "program", 3: "program or library", 4: "core file"}


def file_at(path):
    try:
        with open(path, "rb") as f:
            head = f.read(20)
            size = os.fstat(f.fileno()).st_size
    except OSError:
        return None
    if len(head) < 20 or head[:4] != b"\x7fELF" or head[5] != 1:
        return None
    return File(path, size, 64 if head[4] == 2 else 32, int.from_bytes(head[18:20], "little"),
                int.from_bytes(head[16:18], "little"))


def find(roots):
    """Regular files, each once however many links it has, in order of their names."""
    out, seen = [], set()
    for root in roots:
        names = [root] if os.path.isfile(root) else (os.path.join(d, n) for d, _, ns in os.walk(root) for n in ns)
        for path in sorted(names):
            try:
                st = os.lstat(path)
            except OSError:
                continue
            if not os.path.isfile(path) or os.path.islink(path) or (st.st_dev, st.st_ino) in seen:
                continue
            seen.add((st.st_dev, st.st_ino))
            file = file_at(path)
            if file:
                out.append(file)
    return sorted(out, key=lambda f: f.path)


def spread(files, count):
    """`count` of them, evenly over their order."""
    return [files[i * len(files) // count] for i in range(count)] if count < len(files) else files


# ---- one file -----------------------------------------------------------------------

def said(argv, **kw):
    """(status, output, errors) of a program."""
    env = {**os.environ, "LC_ALL": "C"}
    p = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT, env=env, **kw)
    return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else \
            hashlib.sha256(f.read()).hexdigest()


RECORD = struct.Struct("<8sIIQQ16s16s64s")  # of what the file was (docs/formats.md): after all else


def kept_digest(path):
    """Of a rewritten file without that record: what it was before that came to it."""
    data = Path(path).read_bytes()
    table, = struct.unpack_from("<Q", data, 0x28)
    entry, count = struct.unpack_from("<HH", data, 0x3a)
    if not table or entry != 64:
        return hashlib.sha256(data).hexdigest()
    count = count or struct.unpack_from("<Q", data, table + 0x20)[0]
    at, = struct.unpack_from("<Q", data, table + (count - 1) * entry + 0x18)
    if data[at:at + 8] != b"etchundo":
        return hashlib.sha256(data).hexdigest()
    *_, size, _, _, header = RECORD.unpack_from(data, at)
    return hashlib.sha256(header + data[64:size]).hexdigest()


def elflint(path):
    """Its complaints, as a multiset: the same one may be said twice."""
    _, out, err = said(["eu-elflint", "--gnu-ld", path])
    text = (out + err).replace(str(path), "FILE")
    # One more program header comes before some, and what is behind a note may be part of the same segment.
    text = re.sub(r"(program header entry |phdr\[|segment \[)\d+|(?<= at offset )\d+$", r"\1N", text, flags=re.M)
    return collections.Counter(line for line in text.splitlines() if line.strip() and line != "No errors")


def readelf(path):
    """Status and warnings of readelf -a. What it prints goes to nobody."""
    p = subprocess.run(["readelf", "-a", "-W", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                       timeout=LIMIT, env={**os.environ, "LC_ALL": "C"})
    text = p.stderr.decode(errors="replace").replace(str(path), "FILE")
    return p.returncode, collections.Counter(text.splitlines())


def new_words(before, after, what):
    return [f"{what}: {line}" for line in (after - before)]


def is_dynamic(path):
    """Whether there is a PT_DYNAMIC; by hand, since the file may be one that pyelftools rejects."""
    with open(path, "rb") as f:
        head = f.read(64)
        at, size, count = int.from_bytes(head[32:40], "little"), *head[54:58:2]
        f.seek(at)
        table = f.read(size * count)
    return any(int.from_bytes(table[i:i + 4], "little") == 2 for i in range(0, len(table), size or 1))


def sections(path):
    """Name -> (address, bytes) of .eh_frame where it is, and bytes of code: by the headers alone."""
    with open(path, "rb") as f:
        elf = survey_rows.rows.ELFFile(f)
        text = sum(s["sh_size"] for s in elf.iter_sections() if s["sh_flags"] & 4 and s["sh_type"] != "SHT_NOBITS")
        frame = elf.get_section_by_name(".eh_frame")
        table = elf.get_section_by_name(".etch.unwind") is not None
        if frame is None or frame["sh_type"] == "SHT_NOBITS":
            return text, table, None, 0
        return text, table, frame.data(), frame["sh_addr"]


def look_rows(etch, file, new, out):
    """The table in the rewritten file beside .eh_frame."""
    try:
        if file.kind == 1:
            out["text"], v = survey_rows.verify_object(etch, new)
        else:
            out["text"], table, frame, base = sections(new)
            if out["text"] and not table:
                out["bad"].append("rows: has code and no unwind table")
            if not out["text"] or not table:
                return
            v = survey_rows.verify(etch, new, frame or b"", base, out["text"])
    except UNREADABLE as why:
        out["bad"].append(f"rows: {why or type(why).__name__}")
        return
    out["sources"] = v.sources
    out["rows"] = {"fdes": v.fdes, "covered": v.covered, "agree": v.agree, "explained": v.explained, "odd": v.odd,
                   "undefined": v.undefined, "differ": v.differ_bytes, "judged": v.judged}
    out["bad"] += [f"rows: {d}" for d in v.differ[:50]]


def look_undo(etch, new, was, out):
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(new), prefix=".undo-") as back:
        status, _, err = said([etch, "rewrite", "--undo", "-o", back.name, new])
        if status:
            out["bad"].append(f"undo: {err.strip()[:300]}")
        elif digest(back.name) != was:
            out["bad"].append("undo: other bytes than before")


def look_twice(etch, new, out):
    """Rewriting twice is rewriting once."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(new), prefix=".twice-") as again:
        status, _, err = said([etch, "rewrite", "-o", again.name, new])
        if status:
            out["bad"].append(f"twice: {err.strip()[:300]}")
        elif digest(again.name) != out["written"]:
            out["bad"].append("twice: other bytes than once")


def look_check(etch, new, out):
    """Its own tables are as it would make them now."""
    _, text, err = said([etch, "check", "-q", "--level", "note", "--ignore", "ETCH-[!T]*", new])
    found = [line for line in text.splitlines() if "ETCH-T003" in line]
    if err:
        out["bad"].append(f"check: {err.strip()[:300]}")
    elif found:
        out["bad"].append(f"check: {len(found)} times {found[0].removeprefix(str(new))}")


FINDING = re.compile(r": (ETCH-[A-Z]\d+)\b")


def same_outcome(before, out, file):
    """Whether the result of an earlier etch is this one's too: it wrote these bytes except for the record of what
    they were, or refused in these words."""
    keys = ("kept", "refused", "findings", "notes")
    return before and not before["bad"] and before["stamp"] == stamp(file.path) and \
        all(before.get(k) == out.get(k) for k in keys)


def look(job):
    """Everything about one file but ldd. The result is what a line of results.jsonl holds. What an
    earlier etch's result says of the same bytes holds, but that this one can undo and repeat them."""
    etch, file, scratch, *earlier = job
    before = earlier[0] if earlier else None
    begin, used = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    new = os.path.join(scratch, "root", file.path.lstrip("/"))
    os.makedirs(os.path.dirname(new), exist_ok=True)
    out = {"path": file.path, "size": file.size, "ours": file.is_ours, "bad": [], "refused": None, "findings": {}}
    was = digest(file.path)
    status, _, err = said([etch, "rewrite", "-v", "-o", new, file.path])
    out["rewrite"] = round(cpu_since(used), 2)
    prefix = f"etch: {file.path}: "
    if status == 2:
        out["refused"] = err.strip().removeprefix(prefix)
        if not err.startswith(prefix) or err.count("\n") != 1:
            out["bad"].append(f"refused in other than one line: {err[:300]}")
        if out["refused"].startswith("is a debug file") and has_no_code(file.path):
            out["ours"] = False
        elif file.is_ours:
            out["bad"].append(f"refused: {out['refused']}")
        if os.path.exists(new):
            out["bad"].append("refused, and written")
    elif status:
        out["bad"].append(f"etch rewrite: exit {status}: {err.strip()[-300:]}")
    else:
        out["dynamic"] = file.kind != 1 and is_dynamic(new)
        out["findings"] = dict(collections.Counter(FINDING.findall(err)))
        out["notes"] = [line.removeprefix(prefix) for line in err.splitlines() if line.startswith(prefix + "note:")]
        out["written"], out["kept"] = digest(new), kept_digest(new)
        out["changed"] = out["written"] != was
        look_again(etch, new, was, out)
        if same_outcome(before, out, file):
            out = dict(before, **{k: out[k] for k in ("bad", "rewrite", "written") if k in out})
        else:
            look_at_both(etch, file, new, out)
    if digest(file.path) != was:
        out["bad"].append("the original has changed")
    out["cpu"] = round(cpu_since(used), 2)
    out["seconds"] = round(time.time() - begin, 2)
    return out


def look_again(etch, new, was, out):
    """What etch itself makes of what it wrote."""
    if out["changed"]:
        look_undo(etch, new, was, out)
    look_twice(etch, new, out)
    look_check(etch, new, out)


def look_at_both(etch, file, new, out):
    out["bad"] += new_words(elflint(file.path), elflint(new), "eu-elflint")
    before, after = readelf(file.path), readelf(new)
    out["bad"] += new_words(before[1], after[1], "readelf")
    if before[0] != after[0]:
        out["bad"].append(f"readelf: exit {after[0]}, not {before[0]}")
    look_rows(etch, file, new, out)


def cpu_since(before):
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime


# ---- ldd ----------------------------------------------------------------------------

# What `ldd -r` runs, without its shell: libraries are looked for and loaded, and relocations done.
TRACE = {"LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "1", "LD_BIND_NOW": "1", "LC_ALL": "C"}
LINKER = "/lib64/ld-linux-x86-64.so.2"


def libraries(path):
    """Libraries and where they were found, symbols that were not, in order; without addresses."""
    p = subprocess.run([LINKER, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT, env=TRACE)
    text = re.sub(r" \(0x[0-9a-f]+\)$", "", p.stdout.decode(errors="replace"), flags=re.M)
    return p.returncode, [line.strip() for line in text.splitlines()]


def overlay(scratch):
    """A command before which all files of the scratch root lie over those of the machine, for that
    command alone; None where one may not mount."""
    work = os.path.join(scratch, "work")
    os.makedirs(work, exist_ok=True)
    upper = os.path.join(scratch, "root", "usr")
    mount = f"mount -t overlay overlay -o lowerdir=/usr,upperdir={upper},workdir={work} /usr"
    if any(c in scratch for c in " ,:\\'\"") or not os.path.isdir(upper):
        return None
    for space in ("-m", "-rm"):  # as root, or as the root of a user namespace
        command = ["unshare", space, "sh", "-c", f'{mount} && exec "$@"', "sh"]
        try:
            if said([*command, "true"])[0] == 0:
                return command
        except OSError:
            return None
    return None


def ldd_worker():
    """Reads names from standard input, answers with a line of JSON each."""
    for line in sys.stdin:
        path = json.loads(line)
        try:
            print(json.dumps(libraries(path)), flush=True)
        except subprocess.TimeoutExpired:
            print(json.dumps([None, ["no answer"]]), flush=True)


def ask(workers, path):
    """Both at once."""
    try:
        for p in workers:
            p.stdin.write(json.dumps(path) + "\n")
            p.stdin.flush()
    except OSError:
        raise RuntimeError(f"the worker for ldd has ended before {path}") from None
    return [json.loads(p.stdout.readline() or '[null, ["the worker has ended"]]') for p in workers]


def ldd_all(files, scratch, key, progress):
    """path -> what is wrong. Under the overlay all that runs is rewritten, the dynamic linker too.
    Returns None where there is no overlay to be had."""
    command = overlay(scratch)
    if not command:
        return None
    journal = os.path.join(scratch, "ldd.jsonl")
    bad = {r["path"]: r["bad"] for r in read_results(journal, key).values() if r["path"] in set(files)}
    todo = [f for f in files if f not in bad]
    worker = [sys.executable, os.path.abspath(__file__), "--ldd-worker"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with open(journal, "a") as out, subprocess.Popen(worker, **pipes) as plain, \
            subprocess.Popen([*command, *worker], **pipes) as etched:
        for n, path in enumerate(todo):
            progress(f"ldd {n + 1} of {len(todo)}", path)
            before, after = ask([plain, etched], path)
            lines = [x for x in after[1] if x not in before[1]] or [f"exit {after[0]}, not {before[0]}, or another order"]
            bad[path] = [f"ldd: {x}" for x in lines[:5]] if before != after else []
            print(json.dumps({"path": path, "etch": key, "bad": bad[path]}), file=out, flush=True)
        for p in (plain, etched):
            p.stdin.close()
    return {path: b for path, b in bad.items() if b}


# ---- all ----------------------------------------------------------------------------

def reason_of(text):
    """Refusals that differ in numbers and names alone are one reason."""
    return re.sub(r"'[^']*'|\b0x[0-9a-f]+\b|\b\d+\b", "N", text)


def percent(part, whole):
    return f"{100 * part / whole:.4f}%" if whole else "-"


def report(results, ldd, seconds):
    """The tables of the report."""
    ours = [r for r in results if r["ours"]]
    taken = [r for r in ours if not r["refused"]]
    print("| | files | bytes |\n|---|---|---|")
    for what, list_ in (("ELF files", results), ("for x86-64", ours), ("rewritten", taken),
                        ("of these, left as they are", [r for r in taken if not r.get("changed")]),
                        ("refused: not for x86-64", [r for r in results if r["refused"] and not r["ours"]]),
                        ("refused, for x86-64", [r for r in ours if r["refused"]]),
                        ("something is wrong", [r for r in results if r["bad"]])):
        print(f"| {what} | {len(list_):,} | {sum(r['size'] for r in list_):,} |")
    table("reason to refuse", collections.Counter(reason_of(r["refused"]) for r in results if r["refused"]))
    table("note", collections.Counter(reason_of(n) for r in taken for n in r.get("notes", [])))
    report_findings(taken)
    report_looks(taken, ldd)
    report_rows([r for r in taken if "rows" in r])
    print(f"\n{len(results)} files, {sum(r['rewrite'] for r in results):.0f} s CPU in etch rewrite, "
          f"{sum(r['cpu'] for r in results):.0f} s in all programs started, {seconds:.0f} s in this run")


def report_findings(taken):
    findings, where = collections.Counter(), collections.Counter()
    for r in taken:
        findings.update(r["findings"])
        where.update(r["findings"].keys())
    print("\n| finding | times | files |\n|---|---|---|")
    for k, n in findings.most_common():
        print(f"| {k} | {n:,} | {where[k]:,} |")


def report_looks(taken, ldd):
    failed = collections.Counter(what for r in taken for what in {b.split(":")[0] for b in r["bad"]})
    changed, dynamic = (len([r for r in taken if r.get(k)]) for k in ("changed", "dynamic"))
    print("\n| looked at by | files | that differ or fail |\n|---|---|---|")
    for what, n in (("eu-elflint", len(taken)), ("readelf", len(taken)), ("undo", changed), ("twice", len(taken)), ("check", len(taken)),
                    ("rows", len([r for r in taken if "rows" in r])), ("ldd", 0 if ldd is None else dynamic)):
        print(f"| {what} | {n:,} | {failed.get(what, 0):,} |")


def has_row(r):
    return sum(n for source, n in r["sources"].items() if source != "undefined")


def report_rows(verified):
    text, sources = sum(r["text"] for r in verified), collections.Counter()
    rows, explained = collections.Counter(), collections.Counter()
    for r in verified:
        sources.update({k: n for k, n in r["sources"].items() if k != "undefined"})
        rows.update({k: v for k, v in r["rows"].items() if k != "explained"})
        explained.update(r["rows"]["explained"])
    sources["no row"] = text - sum(sources.values())
    print("\n| bytes of code, by source of their row | bytes | share |\n|---|---|---|")
    for k, n in sources.most_common():
        print(f"| {k} | {n:,} | {percent(n, text)} |")
    described = [r for r in verified if 2 * r["rows"]["covered"] >= r["text"]]
    print("\n| files | files | bytes of code | with a row |\n|---|---|---|---|")
    for what, list_ in ((".eh_frame is about at least half of the code", described),
                        ("it is not", [r for r in verified if 2 * r["rows"]["covered"] < r["text"]])):
        n = sum(r["text"] for r in list_)
        print(f"| {what} | {len(list_):,} | {n:,} | {percent(sum(has_row(r) for r in list_), n)} |")
    print("\n| rows beside .eh_frame | bytes | share |\n|---|---|---|")
    for k in ("covered", "agree", "odd", "undefined", "differ"):
        print(f"| {k} | {rows[k]:,} | {percent(rows[k], rows['covered'])} |")
    for k, n in explained.most_common():
        print(f"| explained: {k} | {n:,} | {percent(n, rows['covered'])} |")


def table(title, counter):
    if not counter:
        return
    print(f"\n| {title} | files |\n|---|---|")
    for k, n in counter.most_common():
        print(f"| {k} | {n:,} |")


def read_results(path, key=None):
    """What earlier runs have found, with the same etch or with any: path -> result."""
    done = {}
    if os.path.exists(path):
        with open(path, "r+") as f:
            text = f.read()
            if text and text[-1] != "\n":  # a run was stopped while it wrote
                f.write("\n")
            f.seek(0)
            for line in f:
                try:
                    r = json.loads(line)
                except ValueError:  # cut off when the run was stopped
                    continue
                if key in (None, r.get("etch")):
                    done[r["path"]] = r
    return done


def stamp(path):
    st = os.stat(path)
    return [st.st_size, st.st_mtime_ns]


def survey(files, etch, scratch, jobs, again=()):
    """Looks at all files, the smallest first so that most of what is wrong shows soon. Returns results
    in the order of files, and what ldd says or None."""
    os.makedirs(scratch, exist_ok=True)
    journal, key = os.path.join(scratch, "results.jsonl"), digest(etch)
    done = {p: r for p, r in read_results(journal, key).items() if p not in again and
            os.path.exists(p) and r["stamp"] == stamp(p)}
    todo = sorted((f for f in files if f.path not in done), key=lambda f: (f.size, f.path))
    earlier = read_results(journal)
    progress = Progress()
    with open(journal, "a") as out, ProcessPoolExecutor(jobs) as pool:
        waiting = {pool.submit(look, (str(etch), f, scratch, earlier.get(f.path))): f for f in todo}
        for n, future in enumerate(as_completed(waiting)):
            f = waiting[future]
            try:
                r = future.result()
            except Exception as why:  # of this script or a program that hangs: a failure of that file
                r = {"path": f.path, "size": f.size, "ours": f.is_ours, "refused": None, "findings": {}, "rewrite": 0,
                     "cpu": 0, "bad": [f"survey: {type(why).__name__}: {why}"]}
            r.update(etch=key, stamp=stamp(f.path))
            done[f.path] = r
            print(json.dumps(r), file=out, flush=True)
            progress(f"{n + 1} of {len(todo)}", f.path)
            for b in r["bad"][:3]:
                progress.end()
                print(f"{f.path}: {b}", flush=True)
    results = [dict(done[f.path], bad=list(done[f.path]["bad"])) for f in files]
    linked = [r["path"] for r in results if not r["refused"] and r.get("dynamic")]
    ldd = ldd_all(linked, scratch, key, progress)
    progress.end()
    for r in results:
        for b in (ldd or {}).get(r["path"], []):
            r["bad"].append(b)
            print(f"{r['path']}: {b}")
    return results, ldd


def install():
    known = [p for p in PACKAGES
             if "Candidate: (none)" not in (said(["apt-cache", "policy", p])[1] or "Candidate: (none)")]
    left = sorted(set(PACKAGES) - set(known))
    if left:
        print(f"survey: not in the package lists: {' '.join(left)}")
    subprocess.run(["apt-get", "-q", "-y", "-o", "Dpkg::Options::=--force-confold", "--no-install-recommends", "install",
                    *known], check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    install_foreign()


def install_foreign():
    """What no distribution has: packages.py. One that cannot be had is left out with a word."""
    for name, why in packages.fetch().items():
        client, package = packages.PACKAGES[name]
        print(f"survey: not fetched: {package} ({client}): {why}")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--etch", default=ROOT / "build" / "etch")
    p.add_argument("--scratch", default="/tmp/etch-survey", help="where everything is written (default %(default)s)")
    p.add_argument("-j", type=int, default=2)
    p.add_argument("--sample", type=int, metavar="N", help="N files, evenly over all")
    p.add_argument("--install", action="store_true", help="install packages first, by apt-get as root, and fetch some from npm and PyPI")
    p.add_argument("--again", action="store_true", help="look once more at the files that failed")
    p.add_argument("--json", metavar="FILE", help="all results")
    p.add_argument("--ldd-worker", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("path", nargs="*", help=f"default: {' '.join(ROOTS)}, and what --install has fetched into {packages.DIRECTORY}")
    a = p.parse_args()
    if a.ldd_worker:
        return ldd_worker()
    if a.install:
        install()
    begin, files = time.time(), find(a.path or [*ROOTS, str(packages.DIRECTORY)])
    if a.sample:
        files = spread(files, a.sample)
    scratch = os.path.abspath(a.scratch)
    again = ()
    if a.again:
        again = {q for q, r in read_results(os.path.join(scratch, "results.jsonl"), digest(a.etch)).items() if r["bad"]}
    results, ldd = survey(files, os.path.abspath(a.etch), scratch, a.j, again)
    report(results, ldd, time.time() - begin)
    if ldd is None:
        print("ldd: not done: needs overlayfs and the right to mount")
    if a.json:
        Path(a.json).write_text(json.dumps(results))
    return 1 if any(r["bad"] for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
