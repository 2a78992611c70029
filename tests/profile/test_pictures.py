# SPDX-License-Identifier: MIT
"""The flame graphs of etch profile and etch heap, in a browser: what stays in view, inverted, over time, by keyboard."""

import itertools
import json
import re

import pytest

from conftest import DATA, run
from flame_browser import browser, drive

# Functions of the scripts below: the frame of a function, its width as drawn (0: hidden), a key, a move of the mouse.
HELP = """
var steps = [];
var frames = function () { return [...document.querySelectorAll('g.f')]; };
var g = function (name) { return frames().find(f => f.style.display != 'none' && f.textContent.startsWith(name + '\\n')); };
var wide = function (name) { var f = g(name); return f ? +f.querySelector('rect').getAttribute('width') : 0; };
var text = function (id) { return document.querySelector('#' + id).textContent; };
var key = function (k) { window.dispatchEvent(new KeyboardEvent('keydown', {key: k})); };
var mouse = function (kind, at, x, y) { at.dispatchEvent(new MouseEvent(kind, {bubbles: true, clientX: x, clientY: y || 0})); };
"""


@pytest.fixture(scope="module")
def burn(etch, tmp_path_factory):
    p = run([etch, "profile", "-q", "--", "true"], ok=(0, 2))
    if p.returncode:
        pytest.skip(p.stderr.strip())
    out = tmp_path_factory.mktemp("burn") / "burn"
    run(["gcc", "-O1", "-pthread", DATA / "profile" / "burn.c", "-o", out])
    return out


@pytest.fixture(scope="module")
def picture(etch, burn, tmp_path_factory):
    out = tmp_path_factory.mktemp("svg") / "a.svg"
    run([etch, "profile", "-F", "4000", "--no-kernel", "-o", out, "--", burn, "0.3", "threads"])
    return out


def test_the_head_says_what_was_measured(picture, burn, tmp_path):
    """Measure, rate, duration, host, date, command; a legend with the program's colour; it stays while one scrolls."""
    first = drive(picture, tmp_path, HELP + """
document.body.style.height = '5000px';
steps.push(text('title'), text('meta'), text('legend'), document.querySelector('#head').getAttribute('y'));
mouse('mouseover', g('hot'), 0); steps.push(text('about')); mouse('mouseout', g('hot'), 0); steps.push(text('about'));
window.scrollTo(0, 120); window.dispatchEvent(new Event('scroll')); steps.push(document.querySelector('#head').getAttribute('y'));
""")
    title, meta, legend, at, about, hint, scrolled = first
    assert title == f"{burn} 0.3 threads"
    assert re.fullmatch(r"processor time; 4000 samples a second; [\d.]+ s; on \S+; \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; etch \S+\n?", meta)
    assert legend.startswith("burn") and at == "0" and scrolled == "120"
    assert re.fullmatch(r"hot  burn  \d+ samples, [\d.]+%", about) and "/ searches, i inverts" in hint


def test_inverted(picture, tmp_path):
    """From what ran to who called it: hot() is below all, with its share of all threads, and middle() below it."""
    before, inside, middle, searched, back = drive(picture, tmp_path, HELP + """
window.prompt = () => '^hot$';
var w = f => +f.querySelector('rect').getAttribute('width');
var hot = frames().filter(f => f.textContent.startsWith('hot\\n')).reduce((a, f) => a + +f.querySelector('rect').getAttribute('width'), 0);
steps.push(hot); key('i');
var h = g('hot'), row = f => +f.querySelector('rect').getAttribute('y');
steps.push([wide('hot'), (row(h) - row(g('all'))) / 17]); 
var m = frames().filter(f => f.style.display != 'none' && f.textContent.startsWith('middle\\n')).sort((a, b) => w(b) - w(a))[0];
steps.push([w(m), (row(m) - row(h)) / 17]);
key('/'); steps.push(text('matched')); key('Escape'); key('i'); steps.push([wide('all'), wide('outer') > 0, text('matched')]);
""")
    assert inside[0] == pytest.approx(before, rel=0.001) and inside[1] == 1 and middle[1] == 1
    assert middle[0] >= inside[0] * 0.999
    assert float(re.fullmatch(r"Matched: ([\d.]+)%", searched).group(1)) == pytest.approx(100 * before / 1380, abs=0.5)
    assert back[0] == 1380 and back[1] and back[2] == ""


def test_by_keyboard(picture, tmp_path):
    """Arrows walk, Enter zooms, Escape goes back; the frame that one is at is said in the head."""
    said, zoomed, back = drive(picture, tmp_path, HELP + """
var before = wide('worker');
for (var i = 0; i < 9; i++) key('ArrowDown');
steps.push(text('about')); key('Enter'); steps.push(+document.querySelector('g.focus rect').getAttribute('width'));
key('Escape'); steps.push([document.querySelectorAll('g.focus').length, wide('all'), wide('worker') == before]);
""")
    assert re.match(r"\S+  .*\d+ samples", said) and zoomed == 1380 and back == [0, 1380, True]


def test_a_span_of_time(etch, tmp_path, burn):
    """A program that does one thing, then another: each span of the time line shows its own."""
    (tmp_path / "a.c").write_text("""
static volatile unsigned sink;
__attribute__((noinline)) void first(unsigned n) { while (n--) sink += n; }
__attribute__((noinline)) void second(unsigned n) { while (n--) sink += n; }
int main(void) { first(300000000); second(300000000); return 0; }
""")
    run(["gcc", "-O1", tmp_path / "a.c", "-o", tmp_path / "a"])
    run([etch, "profile", "-o", tmp_path / "a.svg", "--", tmp_path / "a"])
    whole, early, late, stepped, again = drive(tmp_path / "a.svg", tmp_path, HELP + """
var see = () => steps.push([wide('first'), wide('second'), text('about')]), band = document.querySelector('#time');
see(); mouse('mousedown', band, 11); mouse('mouseup', window, 300); see();
mouse('mousedown', band, 1300); mouse('mouseup', window, 1388); see();
key('['); see(); key('Escape'); see();
""")
    assert whole[0] > 0 and whole[1] > 0 and again[:2] == whole[:2]
    assert early[0] > 1000 and early[1] == 0 and late[0] == 0 and late[1] > 1000, (early, late)
    assert re.fullmatch(r"0.000 s to [\d.]+ s: \d+ samples?", early[2]) and stepped[2] != late[2]
    dom, console = browser((tmp_path / "a.svg").as_uri() + "#time=0-20&search=first", tmp_path)
    assert "0.000 s to " in dom and "Matched: " in dom and console == []


def test_a_moment_of_the_heap(etch, tmp_path):
    """What was live early, at the peak, late: the peak is marked, and each moment shows who had allocated then."""
    (tmp_path / "a.c").write_text("""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) char *early(void) { return memset(malloc(1000000), 1, 1000000); }
__attribute__((noinline)) char *most(void) { return memset(malloc(9000000), 1, 9000000); }
__attribute__((noinline)) char *late(void) { return memset(malloc(3000000), 1, 3000000); }
int main(void)
{
	char *a = early(); usleep(300000); free(a);
	a = most(); usleep(300000); free(a);
	a = late(); usleep(300000); free(a);
	return 0;
}
""")
    run(["gcc", "-O1", "-fno-builtin", tmp_path / "a.c", "-o", tmp_path / "a"])
    run([etch, "heap", "-o", tmp_path / "a.svg", "--", tmp_path / "a"])
    whole, steps = drive(tmp_path / "a.svg", tmp_path, HELP + """
var see = () => [wide('early'), wide('most'), wide('late'), text('about')], seen = [];
steps.push([see(), text('time'), text('meta')]);
for (var i = 0; i < 100; i++) { key(']'); seen.push(see()); }
steps.push(seen);
""")
    assert whole[0][:3] == [0, 1380, 0] and re.search(r"peak 9\.00 MB at [\d.]+ s", whole[1])
    assert whole[2].startswith("heap: live at the peak; each allocation; ")
    run([etch, "heap", "-q", "-o", tmp_path / "a.json", "--", tmp_path / "a"])
    counter, = json.loads((tmp_path / "a.json").read_text())["counters"]
    samples = counter["sampleGroups"][0]["samples"]
    sizes = list(itertools.accumulate(samples["count"]))
    assert max(sizes) == 9000000 and {1000000, 3000000} <= set(sizes) and sizes[-1] == 0
    assert samples["time"] == sorted(samples["time"]) and len(sizes) == samples["length"]
    full = {i for i in range(3) for s in steps if s[i] == 1380 and not any(s[k] for k in range(3) if k != i)}
    assert full == {0, 1, 2}, steps
    assert any(s[3].endswith(": 3.00 MB") and s[2] == 1380 for s in steps)
    order = [i for s in steps for i in range(3) if s[i] == 1380]
    assert order == sorted(order)


def test_processes_are_told_apart(etch, burn, tmp_path):
    """The largest first, each with its own figures; the folded format has names only."""
    out = tmp_path / "a.svg"
    text = run([etch, "profile", "-F", "4000", "-o", out, "--", "sh", "-c", f"{burn} 0.05; {burn} 0.2; true"]).stderr
    rows = re.findall(r"^ +([\d.]+)%  burn \((\d+)\)$", text, re.M)
    assert len(rows) == 2 and float(rows[0][0]) > float(rows[1][0]), text
    found = re.findall(r"<title>burn \((\d+)\)\n\d+ samples, ([\d.]+)%", out.read_text())
    assert [pid for pid, _ in found] == [pid for _, pid in rows] and [share for _, share in found] == [share for share, _ in rows]
    folded = run([etch, "profile", "-q", "--format", "folded", "--", "sh", "-c", f"{burn} 0.05; {burn} 0.05"]).stdout.splitlines()
    names = [line.rpartition(" ")[0] for line in folded]
    assert len(set(names)) == len(names) and not re.search(r"\(\d+\)", " ".join(names))
    heap = run([etch, "heap", "--", "sh", "-c", "ls / | sort >/dev/null"]).stderr
    table = heap.partition("calls  process\n")[2].partition("\n\n")[0].splitlines()
    assert re.fullmatch(r" .* sort \(\d+\)", table[0]) and any(" ls (" in row for row in table), heap
