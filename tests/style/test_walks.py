# SPDX-License-Identifier: MIT
"""The walks of docs/architecture.md are true: gdb runs each of them, and finds its functions, in the files that are named and in
their order, each by way of the one before or after it by way of the same caller."""
import json
import os
import re

import pytest

from conftest import INCLUDE, ROOT, need, run

PAGE = (ROOT / "docs" / "architecture.md").read_text()
STEP = re.compile(r"^\d+\. `(\w+)\(\)` in `([\w/.]+)`", re.M)
WALKS = {"Walk: `etch rewrite app`": 12, "Walk: a finding, from the instruction to SARIF": 12, "Walk: `etch_set` to text": 12}

# In gdb: the next step's breakpoint is set when the one before has been hit.
SCRIPT = r"""
import gdb, json
steps, seen = json.loads(open(FILE).read()), []
gdb.execute("set breakpoint pending on")
gdb.execute("set confirm off")
gdb.execute("set pagination off")
gdb.execute("set startup-with-shell off")
gdb.execute("handle SIGSEGV nostop noprint pass")
for name, path in steps:
    gdb.Breakpoint(function=name, source=path, temporary=True)
    gdb.execute("run" if not seen else "continue")
    if not gdb.selected_inferior().pid:
        break
    frame, names = gdb.selected_frame(), []
    where = frame.function().symtab
    while frame:
        names.append(frame.name())
        frame = frame.older()
    seen.append([names, where.filename if where else None])
open(FILE + ".seen", "w").write(json.dumps(seen))
gdb.execute("kill")
"""


def walk(title):
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## )", PAGE, re.M | re.S)
    assert found, title
    return STEP.findall(found[1])


def trace(steps, tmp_path, program, *args):
    """For each step that is reached after the one before: the functions on the stack, the innermost first, and its file."""
    need("gdb")
    file = tmp_path / "steps"
    file.write_text(json.dumps([[name, path] for name, path in steps]))
    script = tmp_path / "walk.py"
    script.write_text(f"FILE = {str(file)!r}\n{SCRIPT}")
    run(["gdb", "-batch", "-nx", "-q", "-x", script, "--args", program, *args], ok=None, timeout=600,
        env={**os.environ, "DEBUGINFOD_URLS": ""})
    return json.loads((tmp_path / "steps.seen").read_text())


def faults(steps, seen):
    """What is not so: a step that is not reached after the one before, that is in another file, or whose nearest caller in
    the walk is neither the step before nor a caller of it."""
    wrong = []
    names = [name for name, _ in steps]
    if len(seen) < len(steps):
        wrong.append(f"{names[len(seen)]}() is not reached after {names[len(seen) - 1] if seen else 'the start'}()")
    before = []
    for k, ((name, path), (stack, file)) in enumerate(zip(steps, seen)):
        if stack[0] != name or not file or not (ROOT / path).is_file() or not file.endswith(path):
            wrong.append(f"{name}() is in {file}, not in {path}")
        callers = [n for n in stack[1:] if n in names[:k]]
        if k and (not callers or callers[0] not in before):
            wrong.append(f"{name}() is called by {callers[:1] or 'no step'}, not on the way from {names[k - 1]}()")
        before = [name, *callers]
    return wrong


@pytest.mark.parametrize("title,most", WALKS.items())
def test_short(title, most):
    assert 5 <= len(walk(title)) <= most


def test_files_once():
    """A file is visited twice only where its first comment says so."""
    for title in WALKS:
        files = [path for _, path in walk(title)]
        for path in {p for p in files if files.count(p) > 1}:
            head = (ROOT / path).read_text().split("*/", 2)
            assert "twice" in " ".join(head[:2]), f"{title}: {path}"


@pytest.fixture(scope="module")
def app(build, tmp_path_factory):
    """A program with sites of which some cross a word, in a process with two threads."""
    d = tmp_path_factory.mktemp("walk")
    reads = "\n".join(f"""__attribute__((noinline, aligned(16))) int read{k}(void) {{ int v; __asm__ volatile(".skip {k}, 0x90" ::: "memory"); v = value; return v; }}"""
                      for k in range(8))
    sums = " + ".join(f"read{k}()" for k in range(8))
    (d / "app.c").write_text(f"""#include <etch/imv.h>
#include <pthread.h>
#include <unistd.h>
ETCHED int value = 3;
{reads}
static void *wait(void *p) {{ pause(); return p; }}
int main(void) {{ pthread_t t; return pthread_create(&t, 0, wait, 0) || etch_set(&value, 5) || {sums} != 40; }}
""")
    run(["gcc", "-O2", "-g", f"-I{INCLUDE}", d / "app.c", build / "libetch.a", "-lpthread", "-o", d / "app"])
    return d / "app"


def test_rewrite(build, app, tmp_path):
    steps = walk("Walk: `etch rewrite app`")
    assert faults(steps, trace(steps, tmp_path, build / "etch", "rewrite", app)) == []


def test_finding(build, tmp_path):
    (tmp_path / "wrong.s").write_text(".globl wrong\n.type wrong, @function\nwrong:\n\ttest %edi, %edi\n\tje 1f\n\tpush %rax\n1:\tret\n"
                                      ".size wrong, . - wrong\n.section .note.GNU-stack\n")
    run(["gcc", "-c", tmp_path / "wrong.s", "-o", tmp_path / "wrong.o"])
    steps = walk("Walk: a finding, from the instruction to SARIF")
    assert faults(steps, trace(steps, tmp_path, build / "etch", "check", "--format", "sarif", tmp_path / "wrong.o")) == []


def test_set(build, app, tmp_path):
    run([build / "etch", "rewrite", "-o", tmp_path / "app", app])
    assert run([tmp_path / "app"]).returncode == 0
    steps = walk("Walk: `etch_set` to text")
    assert faults(steps, trace(steps, tmp_path, tmp_path / "app")) == []


def test_a_wrong_walk_is_found(build, tmp_path):
    """Two steps in the wrong order, one in another file, and one that is not called from there."""
    steps = walk("Walk: a finding, from the instruction to SARIF")[:2]
    (tmp_path / "right.s").write_text(".globl right\nright:\tret\n.section .note.GNU-stack\n")
    run(["gcc", "-c", tmp_path / "right.s", "-o", tmp_path / "right.o"])
    command, file = steps
    for wrong in ([file, command], [command, (file[0], command[1])], [("options_take", command[1]), file]):
        assert faults(wrong, trace(wrong, tmp_path, build / "etch", "check", "--format", "sarif", tmp_path / "right.o")), wrong
