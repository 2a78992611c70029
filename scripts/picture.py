#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the picture of the README: what a walk costs a frame, beside its peers.

usage: picture.py [REPORT [SVG]]

REPORT is a report of `scripts/bench/run unwind` (default: the newest docs/reports/*-walks.md),
SVG what is written (default: docs/walk.svg). The bars are the medians of its first table; the
scale begins at 0 and is linear. Colours follow the reader's light or dark mode.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# (as the report calls it, as the picture does, is it etch)
WALKERS = [("frame pointers", "frame pointers", False),
           ("etch, map 64", "etch", True),
           ("libunwind, unw_backtrace", "libunwind", False),
           ("framehop 0.16", "framehop", False),
           ("libgcc, _Unwind_Backtrace", "libgcc", False),
           ("glibc, backtrace", "glibc", False)]
PANELS = [("the same stack", "one stack, walked again and again"), ("random, 8,192", "stacks over 8,192 return addresses")]
LEFT, BAR, STEP, WIDTH, GAP, TOP = 108, 18, 26, 250, 90, 52

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-weight: 600 } .value { font-size: 12px; fill: #57606a }
  .peer { fill: #afb8c1 } .etch { fill: #0969da } .name-etch { font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .value { fill: #9198a1 } .peer { fill: #545d68 } .etch { fill: #4493f8 }
  }
"""


def table(report):
    """{walker: {column: median}} of the report's first table of walkers."""
    lines = report.read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if re.match(r"\|\s*walker\s*\|", line))
    columns = [c.strip() for c in lines[first].strip("|").split("|")]
    rows = {}
    for line in lines[first + 2:]:
        if not line.startswith("|"):
            break
        cells = [c.strip() for c in line.strip("|").split("|")]
        rows[cells[0]] = {name: cell.split(" (")[0] for name, cell in zip(columns[1:], cells[1:])}
    return rows


def panel(rows, column, title, x):
    values = [rows[name][column] for name, _, _ in WALKERS]
    most = max(float(v.replace(",", "")) for v in values)
    yield f'<text class="title" x="{x}" y="{TOP - 18}">{title}</text>'
    for i, ((_, label, ours), value) in enumerate(zip(WALKERS, values)):
        y = TOP + i * STEP
        width = max(1.0, float(value.replace(",", "")) / most * (WIDTH - 44))
        yield f'<rect class="{"etch" if ours else "peer"}" x="{x}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>'
        yield f'<text class="value" x="{x + width + 6:.1f}" y="{y + 13}">{value}</text>'
        if x == LEFT:
            yield f'<text class="{"name-etch" if ours else "name"}" x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{label}</text>'


def draw(report):
    rows = table(report)
    height, width = TOP + len(WALKERS) * STEP + 6, LEFT + 2 * WIDTH + GAP
    said = "; ".join(f"{label} {rows[name][PANELS[0][0]]} and {rows[name][PANELS[1][0]]}" for name, label, _ in WALKERS)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
           f"<!-- SPDX-License-Identifier: MIT; scripts/picture.py, from {report.name} -->",
           f"<title>Nanoseconds a frame: {said}</title>", f"<style>{STYLE}</style>",
           f'<text x="{LEFT}" y="14" class="value">nanoseconds a frame, less is better</text>']
    for i, (column, title) in enumerate(PANELS):
        out += panel(rows, column, title, LEFT + i * (WIDTH + GAP // 2))
    return "\n".join([*out, "</svg>", ""])


def main():
    if "--help" in sys.argv or len(sys.argv) > 3:
        print(__doc__.strip())
        return
    report = Path(sys.argv[1]) if len(sys.argv) > 1 else sorted((ROOT / "docs" / "reports").glob("*-walks.md"))[-1]
    Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "docs" / "walk.svg").write_text(draw(report))


if __name__ == "__main__":
    main()
