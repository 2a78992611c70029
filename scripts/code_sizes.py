#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sizes of the sources at one or more commits, a column each: files, lines, long functions, words of docs.

    scripts/code_sizes.py e2d636f HEAD
"""
import argparse
import io
import pathlib
import re
import subprocess
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What counts as long in the table. These are no limits: nothing fails on them.
LINES, FUNCTION, PARAMETERS = 500, 60, 6

# Words that once stood in the sources for terms of the field. (A stray store is in the glossary.)
PRIVATE = r"\b(?:pieces?|stray|handed|pen|lenient|refuted|dubious|hull|stirs|habits?)\b"


def functions(text):
    """(name, lines, parameters) of each function, from the first line of its head to its closing brace."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if line != "{":
            continue
        first = at - 1
        while lines[first].startswith((" ", "\t")):
            first -= 1
        head = re.sub(r"__attribute__\(\(.*?\)\)\)?", "", " ".join(lines[first:at]))
        m = re.match(r"[\w\s*]*?\b(\w+)\((.*)\)[^()]*$", head)
        if m:
            depth, count = 0, m[2].strip() not in ("", "void")
            for c in m[2]:
                depth += (c == "(") - (c == ")")
                count += c == "," and not depth
            yield m[1], lines.index("}", at) - first + 1, count


def git(*command):
    return subprocess.run(["git", "-C", ROOT, *command], check=True, capture_output=True).stdout


def texts(commit, *tops):
    """Path and text of each file of a commit below these folders."""
    have = git("ls-tree", "--name-only", commit, "--", *tops).decode().split()
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "--", *have))) as tar:
        for member in tar:
            if member.isfile():
                yield member.name, tar.extractfile(member).read().decode(errors="replace")


def sizes(commit):
    """Name and number of each row of the table."""
    source = {p: t for p, t in texts(commit, "tool", "lib") if re.search(r"\.[ch]$", p)}
    found = [f for t in source.values() for f in functions(t)]
    docs = {p: t for p, t in texts(commit, "docs", "README.md", "CONTRIBUTING.md")
            if p.endswith(".md") and not p.startswith("docs/reports/")}
    lasting = [t for p, t in docs.items() if p.startswith("docs/")]
    names = [pathlib.PurePath(p).name for p in source]
    return {
        "files of C": len(source),
        "lines": sum(t.count("\n") for t in source.values()),
        "functions": len(found),
        f"files of more than {LINES} lines": sum(t.count("\n") > LINES for t in source.values()),
        f"functions of more than {FUNCTION} lines": sum(n > FUNCTION for _, n, _ in found),
        f"functions of more than {PARAMETERS} parameters": sum(n > PARAMETERS for _, _, n in found),
        "file names that stand twice": len(names) - len(set(names)),
        "private words": sum(len(re.findall(PRIVATE, t)) for t in source.values()),
        "words of README, CONTRIBUTING and docs without reports (wc -w)": sum(len(t.split()) for t in docs.values()),
        "words of docs without reports (wc -w)": sum(len(t.split()) for t in lasting),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", metavar="COMMIT", nargs="*", default=["HEAD"])
    commits = parser.parse_args().commits
    table = [sizes(c) for c in commits]
    print("| | " + " | ".join(commits) + " |\n|---|" + "---:|" * len(commits))
    for row in table[-1]:
        print(f"| {row} | " + " | ".join(f"{t[row]:,}" for t in table) + " |")


if __name__ == "__main__":
    main()
