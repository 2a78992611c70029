#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which fields do the executed reads of marked variables read, and which of these are immediates? From the counts of valgrind's
callgrind, which takes a thousandth of the time of lackey (coverage_load.py):

    valgrind --tool=callgrind --dump-instr=yes --dump-line=no --toggle-collect=FUNCTION --callgrind-out-file=OUT PROGRAM ...
    scripts/bench/executed.py PROGRAM OUT

PROGRAM is rewritten, and has debug information; FUNCTION is what it calls after etch_sync. Counted are instructions that etch
knows to read scalars of the variables; reads by other ways are not. The stores are those that it knows, in the same run: a field
that nothing has stored to may be a setting, or state that seldom changes."""
import collections
import csv
import json
import re
import sys

from common import B, sh, table


def executed(path, program):
    """{address in the program: how often its instruction was executed}"""
    names, of, at, is_call, out = {}, "", 0, False, collections.Counter()
    with open(path, errors="replace") as f:
        for line in f:
            if m := re.match(r"(c?ob)=\((\d+)\)(?: (.*))?$", line):
                names[m[2]] = m[3] or names[m[2]]
                of = names[m[2]] if m[1] == "ob" else of
            elif line.startswith("calls="):
                is_call = True  # the next line has the cost of the callee
            elif m := re.match(r"(?:0x([0-9a-f]+)|([+-]\d+)|\*) (\d+)$", line):
                at = int(m[1], 16) if m[1] else at + int(m[2] or 0)
                if not is_call and of.endswith("/" + program):
                    out[at] += int(m[3])
                is_call = False
    return out


def main():
    program, path = sys.argv[1:]
    count = executed(path, program.rpartition("/")[2])
    if not count:
        sys.exit(f"executed: {path} has no instruction of {program}")
    fields = json.loads(sh(B / "etch", "inspect", "fields", "--format", "json", program))["fields"]
    immediate, left, stores, armed = collections.Counter(), collections.Counter(), collections.Counter(), {}
    for site in csv.DictReader(sh(B / "etch", "inspect", "sites", "--format", "tsv", program).splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE):
        offset = int(site["offset"]) if site["offset"].isdigit() else -1
        field = next((f for f in fields if f["object"] == site["object"] and f["offset"] <= offset < f["offset"] + f["size"]), None)
        name = f"{site['object']}.{field['field']}" if field and field["field"] else site["object"]
        armed[name] = field["armed"] if field else "?"
        n = count[int(site["address"], 16)]
        if site["kind"] == "store":
            stores[name] += n
        elif site["kind"] == "load" and "indexed" not in site["live"] and site["size"].isdigit() and int(site["size"]) <= 8:
            is_armed = site["live"] in ("yes", "swap") and armed[name] in ("yes", "by etch_sync")
            (immediate if is_armed else left)[name] += n
    all_immediate, all_left = immediate.total(), left.total()
    stored = sum(n for name, n in left.items() if stores[name])
    print(f"{all_immediate} executed reads of scalars are immediates ({100 * all_immediate / (all_immediate + all_left):.1f}%), {all_left} are loads: {stored} of fields that "
          f"were stored to in the run, {all_left - stored} of fields that were not\n")
    table(["field", "loads", "stores in the run", "armed"], [[name, n, stores[name], armed[name]] for name, n in left.most_common() if n])


main()
