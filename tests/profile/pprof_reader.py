# SPDX-License-Identifier: MIT
"""A second reader of pprof's format: protobuf's wire encoding, and the field numbers of pprof's profile.proto."""

from types import SimpleNamespace


def fields(data):
    """(number, value) of a message: integers, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2, key
            size = varint()
            assert at + size <= len(data)
            yield key >> 3, data[at:at + size]
            at += size


def numbers(data):
    """A packed list of integers."""
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift = shift + 7 if byte & 128 else 0
        if not byte & 128:
            yield value
            value = 0


def message(data):
    """Fields of a message that occur once."""
    return dict(fields(data))


def read_pprof(data):
    """types, period, and samples: names (the innermost first), values, labels, mappings (path, build-id) by frame."""
    of = {}
    for number, value in fields(data):
        of.setdefault(number, []).append(value)
    strings = [s.decode() for s in of[6]]
    assert strings[0] == ""
    functions = {f[1]: strings[f.get(2, 0)] for f in map(message, of[5])}
    mappings = {m[1]: (strings[m.get(5, 0)], strings[m.get(6, 0)]) for m in map(message, of.get(3, []))}
    locations = {}
    for data in of[4]:
        lines = [functions[message(v)[1]] for n, v in fields(data) if n == 4]
        plain = message(data)
        locations[plain[1]] = [(name, mappings.get(plain.get(2))) for name in lines]
    samples = []
    for data in of[2]:
        frames = [frame for n, v in fields(data) if n == 1 for i in numbers(v) for frame in locations[i]]
        values = [x for n, v in fields(data) if n == 2 for x in numbers(v)]
        labels = {strings[label[1]]: strings[label[2]] for label in (message(v) for n, v in fields(data) if n == 3)}
        samples.append(SimpleNamespace(names=[f[0] for f in frames], mappings=[f[1] for f in frames], values=values, labels=labels))
    types = [(strings[t.get(1, 0)], strings[t.get(2, 0)]) for t in map(message, of[1])]
    return SimpleNamespace(types=types, period=of[12][0], samples=samples)
