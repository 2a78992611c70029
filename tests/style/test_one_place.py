# SPDX-License-Identifier: MIT
"""Some things are written in one place of tool/ and lib/, and stay so."""
import re

from conftest import ROOT


def test_one_text_for_lack_of_memory():
    """It stands in support/error.h, once."""
    found = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "tool").rglob("*.[ch]"))
             for _ in re.findall(r'"[^"\n]*out of memory[^"\n]*"', re.sub(r"(?s)/\*.*?\*/", "", p.read_text()))]
    assert found == ["tool/support/error.h"]


def test_one_binary_search():
    """SEARCH of shared/search.h; bsearch(3) where an element is known by its key. stat/samples.c bisects values, not a list;
    exceptions/records.c takes libgcc's own steps, which matter in a table that is not sorted; the two public headers stand alone, for programs that read tables by themselves."""
    found = {str(p.relative_to(ROOT)) for top in ("tool", "lib") for p in (ROOT / top).rglob("*.[ch]")
             if re.search(r"\+ \(\w+ - \w+(?: \+ 1)?\) / 2;", p.read_text())}
    assert found == {"lib/shared/search.h", "tool/stat/samples.c", "lib/exceptions/records.c", "lib/include/etch/orc_arrays.h", "lib/include/etch/orc_block.h"}
