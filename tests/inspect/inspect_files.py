# SPDX-License-Identifier: MIT
"""What the tests of `etch inspect` look at: a file at each stage, objdump's word on it, and
documents of their schema."""

import json
import re
import shutil
from functools import cache

import jsonschema
import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from conftest import ROOT, Flow, run

SCHEMAS = ROOT / "docs" / "schemas"

SOURCE = r"""
#include <etch/imv.h>
#include <etch/pv.h>
#include <stdio.h>
#include <string.h>
DEFINE_IMV(int, level) = 3;
struct ops { int (*get)(int); };
static int plain(int n) { return n + 1; }
DEFINE_PV_OPS(struct ops, ops) = { .get = plain };
int values[16];
__attribute__((noinline)) int work(int n, char **names)
{
	char buffer[64];
	int i, sum = imv_read(level);

	for (i = 0; i < n; i++) {
		if (names[i][0] == '-' && strcmp(names[i], "--skip") == 0)
			continue;
		switch (n - i) {
		case 0: sum += values[3]; break;
		case 1: sum -= (int)strlen(names[i]); break;
		case 2: sum ^= snprintf(buffer, sizeof buffer, "%s and %d\n", names[i], sum); break;
		case 3: puts(names[i]); break;
		case 4: sum *= 3; break;
		case 5: sum += pv_call(ops, get, sum); break;
		default: values[i & 15] = sum;
		}
		if (sum > 4000)
			return i;
	}
	return sum + (buffer[0] == 'x');
}
int main(int argc, char **argv) { return work(argc, argv) == 77; }
"""


def schema(view):
    s = json.loads((SCHEMAS / f"inspect-{view}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(s)
    return jsonschema.Draft202012Validator(s)


def document(etch, view, *args):
    """A document of `etch inspect VIEW --json`, of its schema."""
    doc = json.loads(run([etch, "inspect", view, "--json", *args]).stdout)
    schema(view).validate(doc)
    return doc


FILES = ["plain", "object", "linked", "done"]


@pytest.fixture(scope="module", params=["gcc", "clang"])
def made(request, once, build):
    """(flow, files by what has been done to them)"""
    def make(directory):
        flow = Flow(directory, build, request.param)
        obj = flow.compile(SOURCE, ["-O2", "-fPIE", "-g"], "object")
        shutil.copy(obj, directory / "plain")
        flow.rewrite(obj)
        flow.link([obj], ["-pie"], "linked")
        flow.rewrite(directory / "linked", args=["-o", directory / "done"])
    directory = once(f"views-{request.param}", make)
    return Flow(directory, build, request.param), {name: directory / name for name in FILES}


def objdump(path, name, *args):
    """[(address, bytes, text)] of a function; relocations are left out."""
    out = []
    text = run(["objdump", "-d", "-w", f"--disassemble={name}", *args, path]).stdout
    for line in text.splitlines():
        m = re.match(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+) *\t(.*)$", line)
        if m:
            out.append((int(m[1], 16), m[2].replace(" ", ""), m[3]))
    return out


BRANCH = re.compile(r"^(?:bnd |notrack )?(?:j[a-z]+|loop[a-z]*|j[er]?cxz)(?:,p[nt])? +([0-9a-f]+) <")
CALL = re.compile(r"^(?:bnd )?call +([0-9a-f]+) <([^>]+)>")


@cache
def frames(path):
    """[(start, end, [(pc, row)])] of .eh_frame, by pyelftools."""
    with open(path, "rb") as f:
        dwarf = ELFFile(f).get_dwarf_info(relocate_dwarf_sections=False)
        out = []
        for entry in dwarf.EH_CFI_entries():
            if isinstance(entry, FDE) and entry["address_range"]:
                table = entry.get_decoded().table
                out.append((entry["initial_location"], entry["initial_location"] + entry["address_range"],
                            [(r["pc"], r) for r in table]))
    return sorted(out, key=lambda x: x[0])
