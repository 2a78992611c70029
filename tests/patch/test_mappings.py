# SPDX-License-Identifier: MIT
"""How many mappings sets leave behind, and how much of the text they make the process's own."""
import re

import pytest

from conftest import CCS, Flow, run

PROGRAM = """
#include <etch/imv.h>
#include <stdio.h>
ETCHED int v = 5;
#define F(i) __attribute__((noinline)) int f##i(int x) { return x + v * 3; } \\
	__attribute__((noinline, used)) void pad##i(void) { __asm__ volatile(".skip APART, 0x90"); }
FUNCTIONS
static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	int c, n = 0;
	while ((c = getc(f)) != EOF)
		n += c == '\\n';
	fclose(f);
	return n;
}
int main(void)
{
	struct etch_info i = { .size = sizeof i };
	int before = mappings(), err = etch_sync_all();
	for (int k = 0; k < 4; k++)
		err |= etch_set(&v, k);
	err |= etch_info(&i);
	printf("%d %d %lu %lu %d", err, mappings() - before, i.armed, i.private_text, SUM);
	return 0;
}
"""


@pytest.mark.parametrize("cc", CCS)
@pytest.mark.parametrize("sites, apart", [(60, 20000), (12, 200000)])
def test_stores_to_distant_pages_share_a_mapping(tmp_path, build, cc, sites, apart):
    """With one thread, where sites are stored to and not swapped. Only the pages that are written to become private."""
    text = PROGRAM.replace("FUNCTIONS", "\n".join(f"F({i})" for i in range(sites))).replace("APART", str(apart))
    text = text.replace("SUM", "+".join(f"f{i}(1)" for i in range(sites)))
    exe = Flow(tmp_path, build, cc).program(text, "linked", ["-O2", "-w"])
    said = re.fullmatch(r"0 (-?\d+) (\d+) (\d+) (\d+)", run([exe]).stdout)
    more, armed, private, total = map(int, said.groups())
    assert armed == sites and total == sites * (1 + 3 * 3)
    assert more <= 3 and sites * 4096 <= private <= (sites + 10) * 4096


UNMAPPED = """
#define _GNU_SOURCE
#include <etch/imv.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
ETCHED int v = 5;
__attribute__((noinline)) int first(int x) { return x + v * 3; }
__asm__(".text; .balign 4096; .skip 8192, 0x90; hole: .skip 4096, 0x90; .skip 8192, 0x90");
__attribute__((noinline)) int last(int x) { return x + v * 3; }
extern char hole[];
static int writable_code(void)
{
	char line[512];
	int n = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, f))
		n += strstr(line, "rwx") != 0;
	fclose(f);
	return n;
}
int main(int argc, char **argv)
{
	int err = etch_sync_all();
	(void)argv;
	if (argc == 1)
		err |= munmap(hole, 4096);
	else
		err |= mprotect(hole, 4096, PROT_NONE);
	for (int i = 0; i < 3; i++) {
		err |= etch_set(&v, i);
		if (first(0) != 3 * i || last(0) != 3 * i || writable_code())
			return 1;
	}
	printf("%d %ld\\n", err, etch_verify(0, 0));
	return 0;
}
"""


@pytest.mark.parametrize("how", ["unmapped", "protected"])
def test_what_the_program_has_taken_away_between(tmp_path, build, how):
    """No code stays writable, and the set is whole."""
    exe = Flow(tmp_path, build, "gcc").program(UNMAPPED, "linked", ["-O2", "-w", "-fno-reorder-functions", "-fno-toplevel-reorder"])
    assert run([exe, *(["x"] if how == "protected" else [])]).stdout == "0 0\n"
