# SPDX-License-Identifier: MIT
"""Damaged recordings: run by `etch heap`, it runs a command and copies the recording of that with fields changed, as those of other
processes: damage.py COUNT SEED COMMAND...

The layout is lib/shared/heap_file.h's: a head of 8-byte fields, then nodes of 16 bytes, leaves of 64, records of modules."""

import os
import random
import struct
import subprocess
import sys

HEAD = 4096
count, seed = int(sys.argv[1]), int(sys.argv[2])
folder = os.environ["ETCH_HEAP"].split(":", 2)[2]
before = set(os.listdir(folder))
subprocess.run(sys.argv[3:], check=True, stdout=subprocess.DEVNULL)
made = [n for n in os.listdir(folder) if n not in before]
with open(os.path.join(folder, made[0]), "rb") as f:
    head = bytearray(f.read(HEAD))
    node_at, leaf_at, module_at, nodes, leaves, modules = struct.unpack_from("<6Q", head, 80)
    parts = []
    for at, size in ((node_at, nodes * 16), (leaf_at, leaves * 64), (module_at, modules)):
        f.seek(at)
        parts.append((at, f.read(size)))
assert head[:8] == b"etchheap" and nodes > 3 and leaves > 1 and modules > 64, (made, nodes, leaves, modules)
pick = random.Random(seed)
VALUES = [0, 1, 2, 7, 8, 0x7f, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 32, 1 << 47, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def change(data, first=0):
    """One field of 1, 4 or 8 bytes."""
    size = pick.choice([1, 4, 8, 8])
    if len(data) < first + size:
        return
    at = pick.randrange(first, len(data) - size + 1)
    at -= 0 if pick.random() < 0.2 else at % size
    value = pick.choice([*VALUES, nodes, nodes - 1, leaves, len(data), pick.getrandbits(64), int.from_bytes(data[at:at + size], "little") + 1])
    data[max(at, first):max(at, first) + size] = (value % (1 << 8 * size)).to_bytes(size, "little")


for i in range(count):
    changed = [(0, bytearray(head))] + [(at, bytearray(data)) for at, data in parts]
    for _ in range(pick.choice([1, 1, 2, 5])):
        which = pick.randrange(4)
        data = changed[which][1]
        if which == 0:
            part = bytearray(data[:360])
            change(part, 0 if pick.random() < 0.1 else 16)
            data[:360] = part
        else:
            change(data)
    with open(os.path.join(folder, f"{5000000 + i}.0"), "wb") as f:
        for at, data in changed:
            f.seek(at)
            f.write(data)
        if pick.random() < 0.05:
            f.truncate(pick.randrange(leaf_at))
