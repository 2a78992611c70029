# SPDX-License-Identifier: MIT
"""Work for sampler.c to interrupt: sampled.py ROUNDS."""
import ctypes
import decimal
import hashlib
import json
import random
import re
import sqlite3
import sys
import zlib

# After the imports: what was loaded after the start has tables now, too.
process = ctypes.CDLL(None)
left = process.etch_unwind_prepare()
if hasattr(process, "sampler_restart"):
    process.sampler_restart()


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


random.seed(1)
for _ in range(int(sys.argv[1])):
    data = [{"a": random.random(), "b": [str(random.random()) for _ in range(20)]} for _ in range(1000)]
    for _ in range(3):
        text = json.dumps(data)
        data = json.loads(text)
    re.findall(r"(\d+)\.(\d)(\d*)", text[:100000])
    sorted(text.split(","), key=lambda s: s[::-1])
    zlib.compress(text.encode())
    hashlib.sha256(text.encode()).hexdigest()
    fib(18)
    sum(decimal.Decimal(i) / 7 for i in range(2000))
    c = sqlite3.connect(":memory:")
    c.execute("create table t(a, b)")
    c.executemany("insert into t values(?, ?)", ((i * 7 % 1000, str(i)) for i in range(3000)))
    c.execute("select a, count(*), max(b) from t group by a order by 2").fetchall()
    c.execute("select count(*) from t x join t y on x.a = y.b").fetchall()
print("without a table:", left)
