# SPDX-License-Identifier: MIT
"""How many mappings sets leave behind, and how much of the text they make the process's own."""
import re

import pytest

from conftest import CCS, Flow, run

SITES = 60
PROGRAM = """
#include <etch/imv.h>
#include <stdio.h>
ETCHED int v = 5;
#define F(i) __attribute__((noinline)) int f##i(int x) { return x + v * 3; } \\
	__attribute__((noinline, used)) void pad##i(void) { __asm__ volatile(".skip 20000, 0x90"); }
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
def test_stores_to_distant_pages_share_a_mapping(tmp_path, build, cc):
    """With one thread, where sites are stored to and not swapped. Only the pages that are written to become private."""
    text = PROGRAM.replace("FUNCTIONS", "\n".join(f"F({i})" for i in range(SITES)))
    text = text.replace("SUM", "+".join(f"f{i}(1)" for i in range(SITES)))
    exe = Flow(tmp_path, build, cc).program(text, "linked", ["-O2", "-w"])
    said = re.fullmatch(r"0 (-?\d+) (\d+) (\d+) (\d+)", run([exe]).stdout)
    more, armed, private, total = map(int, said.groups())
    assert armed == SITES and total == SITES * (1 + 3 * 3)
    assert more <= 3 and SITES * 4096 <= private <= (SITES + 10) * 4096
