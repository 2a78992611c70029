# SPDX-License-Identifier: MIT
"""A plain store to an armed page gives up its constants, and the program goes on (lib/patch/give_up.c): no read is stale or torn
(tests/data/lib/stray.c). Two wrong orders of the same steps are noticed by the same program. STRAY_SECONDS in the environment makes it
longer: the torture of a release takes 600."""
import os
import re
from pathlib import Path

import pytest

from conftest import CCS, DATA, INCLUDE, ROOT, Flow, run

LIB = DATA / "lib"
FLAGS = ["-O2", "-g", f"-I{LIB}"]
SECONDS = int(os.environ.get("STRAY_SECONDS", 3))


def counts(out):
    return {name: int(n) for name, n in re.findall(r"([a-z][a-z ]*) (\d+)", out)}


def program(flow, directory):
    """With the libetch.so of that directory."""
    lib = [f"-L{directory}", "-letch", f"-Wl,-rpath,{directory}"]
    main, plugin = flow.compile(LIB / "stray.c", [*FLAGS, "-fPIE"]), flow.compile(LIB / "stray_plugin.c", [*FLAGS, "-fPIC"])
    run([flow.cc, "-pie", "-rdynamic", "-o", flow.tmp / "stray", main, *lib, "-pthread", "-ldl"])
    run([flow.cc, "-shared", "-o", flow.tmp / "plugin.so", plugin, *lib])
    flow.rewrite(flow.tmp / "stray", flow.tmp / "plugin.so")
    return flow.tmp / "stray"


@pytest.mark.parametrize("readers", [1, 4])
@pytest.mark.parametrize("cc", CCS)
def test_no_read_is_stale_and_nobody_dies(tmp_path, build, cc, readers):
    flow = Flow(tmp_path, build, cc)
    exe = program(flow, build.resolve())
    n = counts(run([exe, SECONDS, readers, flow.tmp / "plugin.so"], timeout=300 + 11 * SECONDS).stdout)
    assert n["errors"] == n["verify"] == 0, n
    assert all(n[k] for k in ("reads", "strays", "sets", "syncs", "forks", "vforks", "handlers", "loads", "cancels", "given up")), n


# Other threads run in between on a busy machine, too.
PAUSE = "\tsys_call3(SYS_nanosleep, (long)(const long[2]){0, 100000}, 0, 0);\n"
# What must be noticed: (file of lib/patch, [(text, other text)])
WRONG = {
    "a set opens the page while sites are immediates": ("patch.c", [
        ("t->data_swapped = &part_objects && data_by_swap(t);", "t->data_swapped = 0;\n\t(void)data_by_swap;"),
        ("\tt->data_refused = t->data_swapped && err;\n", "\tt->data_refused = 0;\n" + PAUSE)]),
    "the page opens before the sites are loads": ("release.c", [
        ("\terr = err ? err : txn_commit(&t);\n",
         "\tfor (i = first; i < end; i++)\n\t\tif (m->object[i].flags & OBJECT_CHANGING)\n\t\t\tm->object[i].flags &= ~OBJECT_ARMED;\n"
         "\tmodule_protect(m, m->object[first].addr, m->object[end - 1].addr + m->object[end - 1].size);\n" + PAUSE +
         "\terr = err ? err : txn_commit(&t);\n")]),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_order_is_noticed(tmp_path, build, what):
    name, changes = WRONG[what]
    text = (ROOT / "lib/patch" / name).read_text()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (tmp_path / name).write_text("#include \"common/sys.h\"\n" + text)
    run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-DETCH_NO_MODULE", "-O2", "-fPIC", "-fvisibility=hidden", f"-I{ROOT}/lib", f"-I{INCLUDE}", "-c",
         "-o", tmp_path / "wrong.o", tmp_path / name])
    objects = [o for o in sorted((build / "o/lib").glob("*/*.o")) if o.parent.name not in ("heap", "interfaces") and o.stem != Path(name).stem]
    run(["gcc", "-shared", "-Wl,-soname,libetch.so.0", f"-Wl,--version-script,{ROOT}/lib/libetch.map", "-Wl,-z,now", "-o",
         tmp_path / "libetch.so.0", *objects, tmp_path / "wrong.o", "-pthread"])
    (tmp_path / "libetch.so").symlink_to("libetch.so.0")
    exe = program(Flow(tmp_path, build, "gcc"), tmp_path)
    for _ in range(12):
        p = run([exe, 10, 2], ok=(0, 1), timeout=300)
        if p.returncode:
            break
    assert p.returncode == 1 and re.search(r"cell \d+: ", p.stderr), p.stderr
