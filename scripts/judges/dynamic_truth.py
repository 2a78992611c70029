#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that nobody here wrote, one instruction at a time, with a shadow call
stack as truth: from every instruction the whole stack is unwound through the
tables. See docs/correctness.md.

    scripts/judges/dynamic_truth.py [--rows etch|code|cfi] [--scale 1.0] [NAME...]

--rows etch: rows as `etch` makes them. code: the same with --no-cfi. cfi: .eh_frame
read by pyelftools, which tests the truth and not etch.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "analysis")]
import pinned  # noqa: E402,F401
import dynamic  # noqa: E402
import systemfiles  # noqa: E402

CMAKE = """
foreach(i RANGE 6)
  string(JSON v ERROR_VARIABLE e GET "{\\"a\\": {\\"b\\": [1,2,3]}}" a b ${i})
  string(JSON w ERROR_VARIABLE f GET "{ not json" x)
  string(REGEX REPLACE "([a-z]+)-([0-9]+)" "\\\\2-\\\\1" g "abc-${i}")
endforeach()
message(STATUS "${v} ${e} ${f} ${g}")
"""
SQL = """create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i+1 from n where i<60) insert into t select i, 'row '||i, i*1.5 from n;
create index u on t(b); select b, sum(c), count(*) from t where a%3=1 group by a%5 order by 2 desc;
select a.b, b.c from t a join t b on a.a=b.a+1 where a.b like '%2%' limit 5;
select json_extract('{"x":[1,2,{"y":"z"}]}','$.x[2].y'); explain query plan select * from t where b='row 7';
"""
PYTHON = """
import json, re, sys
class E(Exception): pass
def f(n):
    if n == 0: raise E('deep')
    return f(n-1)
for i in range(4):
    try: f(i * 6)
    except E as e: pass
d = {str(i): [i, {'x': i * 1.5}] for i in range(20)}
assert json.loads(json.dumps(d)) == d
print(re.sub(r'(\\w+)-(\\d+)', r'\\2', 'ab-12 cd-34'), sorted(d, key=lambda k: -int(k))[:3], 3 ** 200 % 97)
"""


def programs(tmp):
    """name -> (argv, stdin, steps, skip): what is run. Steps of the long version."""
    text = tmp / "text"
    text.write_bytes((ROOT / "README.md").read_bytes()[:24000])
    script = tmp / "throw.cmake"
    script.write_text(CMAKE)
    py = tmp / "t.py"
    py.write_text(PYTHON)
    return {
        "gzip": (["gzip", "-9c", str(text)], None, 700_000, 0),
        "sqlite3": (["sqlite3", ":memory:"], SQL.encode(), 1_400_000, 0),
        "python": ([os.path.realpath("/usr/bin/python3"), "-S", "-E", "-c", "exec(open(%r).read())" % str(py)], None, 1_500_000, 0),
        # Without -S: it loads a library of its own by dlopen and has 5 times the depth.
        "python-main": ([os.path.realpath("/usr/bin/python3"), "-I", "-S", str(py)], None, 1_000_000, 4_000_000),
        # throws nlohmann::detail-like json errors of its own and catches them
        "cmake": (["cmake", "-P", str(script)], None, 1_200_000, 0),
        "openssl-dgst": (["openssl", "dgst", "-sha256", str(text)], None, 500_000, 0),
        "openssl-ed25519": (["openssl", "genpkey", "-algorithm", "ed25519"], None, 500_000, 400_000),
    }


def run_one(tools, table, name, what, scale, library=False, out=sys.stdout):
    argv, stdin, steps, skip = what
    begin = time.time()
    steps, skip = max(int(steps * scale), 1000), int(skip * scale)
    random = name == "openssl-ed25519"   # its output is never the same
    r = dynamic.in_process(tools, table, argv, steps=steps + skip, skip=skip, stdin=stdin, ok=not random,
                           library=library)
    wrong = sum(r.counts[w] for w in dynamic.WRONG)
    print(f"{name:<16} {r.steps:>9} {r.walked:>9} {r.checked:>11} {r.calls:>8} {r.deepest:>5} {r.eh_returns:>6} "
          f"{r.odd_returns:>5} {wrong:>6} {r.counts['register']:>8} {r.counts['undef']:>7} {r.counts['no-table']:>8} "
          f"{r.library_frames:>10} {r.counts['libetch']:>6} "
          f"{time.time() - begin:>5.0f}", file=out, flush=True)
    return r


HEAD = (f"{'program':<16} {'steps':>9} {'walked':>9} {'frames':>11} {'calls':>8} {'depth':>5} {'eh_ret':>6} "
        f"{'oddrt':>5} {'wrong':>6} {'register':>8} {'undef':>7} {'no-table':>8} {'libetch':>10} {'wrong':>6} {'s':>5}")


# Rows that differ from the shadow stack for a reason, each tied to its function:
# (what, name of the file, pattern of the function) -> why.
EXPLAINED = [
    # uw_install_context writes the registers of the landing frame over this function's own save slots,
    # then moves rsp there: for some instructions it returns into another frame than it was called from.
    (("rbp", "cfa", "ra"), "libgcc_s.so.1", r"_Unwind_(RaiseException|Resume|Resume_or_Rethrow|ForcedUnwind)\+"),
    # Behind `mov %r8,%rsp` nothing of its own frame is left, and where it goes is in rdx: no row.
    # (In a libc without symbols of its own, longjmp and ____longjmp_chk lie behind these two.)
    (("undef",), "libc.so.6", r"_*longjmp\w*\+|\((siglongjmp|argp_usage)\+"),
    # CFA = rbx + n in a frame that has called: only frame 0 and interrupted frames have rbx. Where ld.so has no symbols of its
    # own, the last exported one in front is the name.
    (("register",), "ld-linux-x86-64.so.2", r"_dl_(runtime_resolve|tlsdesc_dynamic)_\w+\+|\(_dl_deallocate_tls\+"),
]


def why(trouble):
    name = os.path.basename(trouble.file)
    for what, file, function in EXPLAINED:
        if trouble.what in what and name == file and re.match(function, symbols(trouble.file).at(trouble.ip)):
            return True
    return False


_symbols = {}


def symbols(path):
    if path not in _symbols:
        _symbols[path] = systemfiles.Symbols(path)
    return _symbols[path]


def unexplained(reports):
    return [t for r in reports for t in r.trouble if not why(t)]


def show(reports, limit=40, out=sys.stdout):
    """The distinct places, most frequent first."""
    places = {}
    for r in reports:
        for t in r.trouble:
            key = (t.what, t.file, t.row)
            places.setdefault(key, [0, t])[0] += t.count
    for n, t in sorted(places.values(), key=lambda p: -p[0])[:limit]:
        try:
            where = symbols(t.file).at(t.ip) + (" (explained)" if why(t) else "")
        except OSError:
            where = "?"
        print(f"    {t.what:<9} {os.path.basename(t.file)} {where}: {n} times: {t}", file=out)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--etch", default=ROOT / "build" / "etch")
    p.add_argument("--rows", choices=("etch", "code", "cfi"), default="etch")
    p.add_argument("--library", metavar="DIR", help="compare libetch of this build as well, in process, with sidecars")
    p.add_argument("--scale", type=float, default=1.0)
    p.add_argument("--limit", type=int, default=40, help="places to show")
    p.add_argument("name", nargs="*")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as d:
        tmp = Path(d)
        dynamic.build(tmp, a.library)
        table = dynamic.Rows(tmp / "rows", a.etch, {"etch": [], "code": ["--no-cfi"], "cfi": "cfi"}[a.rows])
        print(HEAD)
        reports = []
        for name, what in programs(tmp).items():
            if not a.name or name in a.name:
                reports.append(run_one(tmp, table, name, what, a.scale, bool(a.library)))
        show(reports, a.limit)
        bad = sum(t.count for t in unexplained(reports))
        known = sum(t.count for r in reports for t in r.trouble) - bad
        print(f"{sum(r.walked for r in reports)} instructions, {sum(r.checked for r in reports)} frames; "
              f"walks that ended early for a known reason: {known}; wrong or without a row: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
