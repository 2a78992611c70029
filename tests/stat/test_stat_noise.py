# SPDX-License-Identifier: MIT
"""etch stat: when a difference is one. The rule of noise against its own definition, worked out another
way, and against pairs of equal commands: simulated ones, and runs recorded from a busy machine."""

import itertools
import math
import random
import statistics

import pytest

from conftest import DATA, MEMORY, ROOT, run, tool_objects

HERE = DATA / "stat"


@pytest.fixture(scope="module")
def rule(build, tmp_path_factory):
    program = tmp_path_factory.mktemp("stat") / "verdicts"
    run(["gcc", "-O2", "-D_GNU_SOURCE", f"-I{ROOT}/tool", "-o", program, HERE / "verdicts.c",
         *tool_objects(build, "stat/samples.c", *MEMORY), "-lm"])

    def ask(lines):
        return run([program], input="\n".join(lines) + "\n").stdout.splitlines()
    return ask


def shift_line(a, b):
    return f"shift {len(a)} {len(b)} {' '.join(map(repr, a))} {' '.join(map(repr, b))}"


def interval(line):
    return None if line == "-" else tuple(map(float, line.split()))


def beyond(line):
    low, high = interval(line)
    return low > 0 or high < 0


def u_counts(n, m):
    """How many orders of n and m runs have U = 0, 1, ...: the coefficients of the
    Gaussian binomial, in whole numbers."""
    c = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for u in range(n * m, m + i - 1, -1):
            c[u] -= c[u - m - i]
        for u in range(i, n * m + 1):
            c[u] += c[u - i]
    assert sum(c) == math.comb(n + m, n)
    return c


def test_ranks_are_those_of_the_exact_distribution(rule):
    sizes = [(n, m) for n in range(1, 14) for m in range(1, 14)] + [(20, 20), (50, 50), (49, 7)]
    got = [int(k) for k in rule([f"rank {n} {m}" for n, m in sizes])]
    for (n, m), k in zip(sizes, got):
        c, all = u_counts(n, m), math.comb(n + m, n)
        # In tails of 0.5%: P(U < k) is within, and one more would not be.
        assert sum(c[:k]) * 200 <= all < sum(c[:k + 1]) * 200, (n, m)
    # As printed in tables of the test (two sides, 1%), which give the largest U.
    table = {5: 0, 6: 2, 7: 4, 8: 7, 9: 11, 10: 16, 12: 27, 15: 51, 20: 105}
    assert [int(k) - 1 for k in rule([f"rank {n} {n}" for n in table])] == list(table.values())


def test_ranks_of_many_runs_are_near_the_exact_ones(rule):
    for n, m in ((51, 51), (60, 60), (80, 52)):
        k = int(rule([f"rank {n} {m}"])[0])
        c, all = u_counts(n, m), math.comb(n + m, n)
        assert 0.0046 < sum(c[:k]) / all <= 0.005  # on the safe side


def test_the_interval_by_brute_force(rule):
    rng = random.Random(5)
    cases, lines = [], []
    for n, m in ((5, 5), (6, 9), (12, 12), (30, 20), (60, 55)):
        for values in (lambda: rng.gauss(0, 1), lambda: float(rng.randrange(4)), lambda: rng.choice([-1e300, 1e-300, 0.0])):
            a, b = [values() for _ in range(n)], [values() for _ in range(m)]
            cases.append((a, b))
            lines += [f"rank {n} {m}", shift_line(a, b)]
    answers = rule(lines)
    for (a, b), k, line in zip(cases, answers[::2], answers[1::2]):
        differences = sorted(y - x for x in a for y in b)
        assert interval(line) == (differences[int(k) - 1], differences[-int(k)])


def test_every_order_of_five_and_five(rule):
    """Of 252 orders of ten runs, all as likely between equal commands, two are called
    different: those in which one command's runs all lie below the other's."""
    orders = list(itertools.combinations(range(10), 5))
    lines = [shift_line([float(i) for i in a], [float(i) for i in range(10) if i not in a]) for a in orders]
    flagged = [a for a, line in zip(orders, rule(lines)) if beyond(line)]
    assert flagged == [(0, 1, 2, 3, 4), (5, 6, 7, 8, 9)]


def test_too_few(rule):
    lines = [shift_line([1.0] * n, [2.0] * m) for n, m in ((1, 1), (4, 4), (4, 5), (2, 8), (5, 5))]
    assert rule(lines) == ["-", "-", "-", "-", "1 1"]


def walk(rng, n):
    x, out = 0.0, []
    for _ in range(n):
        x += rng.gauss(0, 1)
        out.append(x)
    return out


def slow_noise(rng, n):
    x, out = 0.0, []
    for _ in range(n):
        x = 0.9 * x + rng.gauss(0, 1)
        out.append(x)
    return out


# What equal commands may look like, run after run.
EQUAL = {
    "normal": lambda rng, n: [rng.gauss(100, 5) for _ in range(n)],
    "heavy tail": lambda rng, n: [math.exp(2 * rng.gauss(0, 1)) for _ in range(n)],
    "two modes": lambda rng, n: [rng.gauss(rng.choice([0, 20]), 1) for _ in range(n)],
    "small counts": lambda rng, n: [float(rng.choice([0, 0, 0, 1, 2])) for _ in range(n)],
    "mostly one value": lambda rng, n: [float(rng.random() < 0.05) for _ in range(n)],
    "getting warmer": lambda rng, n: [3.0 * i + rng.gauss(0, 1) for i in range(n)],
    "slow noise": slow_noise,
    "random walk": walk,
}


@pytest.mark.parametrize("runs", [5, 8, 15])
@pytest.mark.parametrize("kind", EQUAL)
def test_equal_commands_are_seldom_called_different(rule, kind, runs):
    rng = random.Random(f"{kind} {runs}")
    tables = 6000
    lines = []
    for _ in range(tables):
        x = EQUAL[kind](rng, 2 * runs)
        lines.append(shift_line(x[::2], x[1::2]))  # A B A B ...
    rate = sum(map(beyond, rule(lines))) / tables
    # 1% was promised; three standard deviations of a count of 60.
    assert rate < 0.01 + 3 * math.sqrt(0.01 / tables)
    if kind in ("normal", "heavy tail", "two modes"):
        assert rate > 0.004  # the rule is no stricter than it says, or this test would not see it work


def recorded():
    lines = [line.split("\t") for line in (HERE / "recorded.tsv").read_text().splitlines() if not line.startswith("#")]
    return {name: [float(r[i]) for r in lines[1:]] for i, name in enumerate(lines[0])}


@pytest.mark.parametrize("row", ["task-clock", "page-faults", "elapsed"])
def test_equal_commands_as_recorded(rule, row):
    x = recorded()[row]
    assert len(x) == 1000
    lines = [shift_line(x[i:i + 2 * n:2], x[i + 1:i + 2 * n:2]) for n in (5, 10) for i in range(0, 1000 - 2 * n, 3)]
    assert sum(map(beyond, rule(lines))) / len(lines) < 0.02


@pytest.mark.parametrize("row", ["task-clock", "page-faults", "elapsed"])
def test_a_real_difference_is_found(rule, row):
    """The recorded runs, every second one with 40% added, of 20 each."""
    x = recorded()[row]
    lines = [shift_line(x[i:i + 40:2], [1.4 * v for v in x[i + 1:i + 40:2]]) for i in range(0, 960, 40)]
    found = sum(interval(line)[0] > 0 for line in rule(lines)) / len(lines)
    assert found > {"elapsed": 0.2}.get(row, 0.9)


def test_spread(rule):
    rng = random.Random(3)
    cases = [[rng.choice([rng.gauss(0, 1), 7.0]) for _ in range(n)] for n in (1, 2, 3, 4, 9, 100)]
    for x, line in zip(cases, rule([f"spread {len(x)} {' '.join(map(repr, x))}" for x in cases])):
        median = statistics.median(x)
        assert list(map(float, line.split())) == [
            median, statistics.median([abs(v - median) for v in x]), min(x), max(x)]
