# SPDX-License-Identifier: MIT
"""Where DWARF does not have the members of an object, etch rewrite says so, and why: such an object is guarded as a whole."""
import re

import pytest

from conftest import run

WHOLE_PROGRAM = """
#include <etch/imv.h>
#include <stdlib.h>
#include <unistd.h>
struct sub { int x, y; };
ETCHED struct g { int maxconn, mode; struct sub esc; unsigned req_count; int last; } settings = { 10, 1 };
__attribute__((noinline)) int work(int x) { settings.req_count++; return x < settings.maxconn ? settings.mode + settings.last : 7; }
int main(int c, char **v) { settings.maxconn = c; settings.mode = c + 1; settings.last = c;
	return etch_sync(&settings, sizeof settings) + (write(-1, &settings.esc, 1) == 1) + (work(c) == 3); }
"""


@pytest.mark.parametrize("how,why", [("-g", None), ("-g1", "no -g, or -g1"), ("-s", "stripped"), ("-flto", "no -g, or -g1"), ("-g -gsplit-dwarf", "split DWARF"),
                                     ("-O2", "no -g, or -g1"), ("-flto -g", None)])
def test_missing_members_are_said(flow, how, why):
    o = flow.compile(flow.source(WHOLE_PROGRAM, "whole.c"), ["-O2", *how.split()])
    exe = flow.link([o], ["-O2", *how.split(), *(["-fuse-ld=lld"] if flow.cc == "clang" and "lto" in how else [])], "whole")
    said = flow.rewrite(exe).stderr
    rows = {r["field"]: r["armed"] for r in flow.inspect("fields", exe)["fields"]}
    if why:
        assert re.search(rf"note: \S+: no member information \({why}\): guarded as a whole\n", said), said
        assert set(rows.values()) == {"guarded"}, rows
    else:
        assert "member" not in said and rows["mode"] == rows["last"] == "by etch_sync", (said, rows)
        assert {a for f, a in rows.items() if f.split(".")[0] == "esc"} == {"no"}, rows
    run([exe])
