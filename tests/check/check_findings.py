# SPDX-License-Identifier: MIT
"""What the tests of the passes of etch check share: findings as data, objects from assembly."""

import json

from conftest import run


def findings(etch, path, *ids, args=(), env=None):
    """Findings with one of these IDs (all, without any), as dicts."""
    p = run([etch, "check", "--format", "json", "--fail-on", "never", *args, path], env=env)
    (file,) = json.loads(p.stdout)["files"]
    return [x for x in file["findings"] if not ids or x["id"] in ids]


def function(x):
    return x["place"].get("function")


def places(list):
    return sorted((function(x), x["place"].get("offset")) for x in list)


def assemble(tmp, text, name="t", cc="gcc"):
    source, obj = tmp / f"{name}.s", tmp / f"{name}.o"
    source.write_text(text)
    run([cc, "-c", "-o", obj, source])
    return obj


NOTE = '\t.section .note.GNU-stack,"",@progbits\n'

FUNCTION = "\t.text\n\t.globl f\n\t.type f,@function\nf:\tret\n\t.size f,.-f\n"
