# SPDX-License-Identifier: MIT
"""What etch inspect says of files of the Linux kernel, as data."""

import json

import jsonschema

from conftest import ROOT, run


def tables(etch, path, *args):
    """name -> (head, rows) of the TSV form."""
    out, head, names = {}, None, None
    for line in run([etch, "inspect", "tables", "--format", "tsv", *args, path]).stdout.splitlines():
        if line.startswith("# "):
            head, names = line[2:], None
            out[head.split(":")[0]] = (head, [])
        elif names is None:
            names = line.split("\t")
        else:
            cells = line.split("\t")
            assert len(cells) == len(names)
            out[head.split(":")[0]][1].append(dict(zip(names, cells)))
    return out


def document(etch, view, path, *args):
    """A JSON document, valid by its schema."""
    j = json.loads(run([etch, "inspect", view, "--json", *args, path]).stdout)
    schema = json.loads((ROOT / "docs" / "schemas" / f"{j['format'][5:]}.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(j)
    return j


def orc(etch, path, *args):
    """The rows as TSV has them, without the names of functions."""
    out = run([etch, "inspect", "orc", "--format", "tsv", *args, path]).stdout.splitlines()
    assert out[0].startswith("address\tsize\tcfa\tbp\tra\tkind\tsource") and out[0].endswith("\tfunction")
    return [line.rpartition("\t")[0] for line in out[1:]]
