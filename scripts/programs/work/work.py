# SPDX-License-Identifier: MIT
"""What python3 is tried by: the interpreter, and those modules of it that are compiled."""
import array, bz2, collections, concurrent.futures, ctypes, decimal, fractions, functools, gc, hashlib  # noqa: E401
import heapq, itertools, json, lzma, math, multiprocessing, os, pickle, queue, random, re, select  # noqa: E401
import signal, socket, sqlite3, statistics, struct, subprocess, sys, threading, unicodedata, uuid  # noqa: E401
import xml.etree.ElementTree as ET
import zlib


def digest(data):
    return hashlib.sha256(data if isinstance(data, bytes) else repr(data).encode()).hexdigest()[:16]


def primes(n):
    sieve = bytearray([1]) * (n + 1)
    sieve[:2] = b"\0\0"
    for i in range(2, math.isqrt(n) + 1):
        if sieve[i]:
            sieve[i * i::i] = bytes(len(range(i * i, n + 1, i)))
    return [i for i in range(n + 1) if sieve[i]]


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def compress(data):
    for module in (zlib, bz2, lzma):
        packed = module.compress(data)
        assert module.decompress(packed) == data
        print(module.__name__, len(packed), digest(packed))


def database():
    db = sqlite3.connect(":memory:")
    db.execute("create table t(a integer primary key, b text, c real)")
    db.executemany("insert into t values(?,?,?)", ((i, f"name{i * 7919 % 1000}", i / 7) for i in range(3000)))
    db.create_function("twice", 1, lambda x: x * 2)
    print(db.execute("select count(distinct b), sum(twice(a)), round(avg(c), 6) from t").fetchone())
    print(db.execute("select b, count(*) n from t group by b order by n desc, b limit 3").fetchall())


def calls_back():
    """C that calls Python: qsort with a comparison written here."""
    libc = ctypes.CDLL(None)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    numbers = (ctypes.c_int * 500)(*[random.randrange(10 ** 6) for _ in range(500)])
    libc.qsort(numbers, len(numbers), ctypes.sizeof(ctypes.c_int), kind(lambda a, b: a[0] - b[0]))
    print("qsort", list(numbers) == sorted(numbers), digest(list(numbers)))


def threads():
    found, todo = [], queue.Queue()
    for n in range(50):
        todo.put(n)

    def work():
        while True:
            try:
                n = todo.get_nowait()
            except queue.Empty:
                return
            found.append(digest(zlib.compress(bytes(range(256)) * (n + 1))))
    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    print("threads", digest(sorted(found)))


def errors():
    for source in ("1/0", "[][1]", "{}['x']", "int('x')", "b'\\xff'.decode()", "(lambda: x)()", "1 +", "None.x"):
        try:
            eval(source)
        except Exception as why:
            print(type(why).__name__, why)
    sys.setrecursionlimit(500)
    try:
        (lambda f: f(f))(lambda f: f(f))
    except RecursionError as why:
        print(type(why).__name__)
    signal.signal(signal.SIGALRM, lambda *a: print("alarm"))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    select.select([], [], [], 0.05)


def talk():
    a, b = socket.socketpair()
    b.sendall(b"x" * 1000)
    print("socket", len(a.recv(4096)))
    print(subprocess.run(["sort", "-r"], input=b"1\n3\n2\n", capture_output=True).stdout)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print("pool", pool.map(fib, range(15)))
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        print("executor", sum(pool.map(len, map(str, range(1000)))))


def main():
    random.seed(7)
    print(sys.version.split()[0], sys.executable, os.getpid() > 0, len(primes(200000)), fib(20))
    data = "".join(random.choices("abcdefghij \n", k=100000)).encode()
    compress(data)
    print(collections.Counter(re.findall(rb"\b[a-e]+\b", data)).most_common(3))
    tree = {"k%d" % i: [i, i / 3, None, {"n": "ü" * (i % 9)}] for i in range(2000)}
    text = json.dumps(tree, sort_keys=True)
    print("json", json.loads(text) == tree, digest(text), digest(pickle.dumps(tree, 5)))
    decimal.getcontext().prec = 60
    print(decimal.Decimal(2).sqrt(), decimal.Decimal(1) / 97, sum(map(fractions.Fraction, ("1/3", "1/7", "2/9"))))
    print(math.factorial(300) % (10 ** 40 + 7), pow(3, 10 ** 50, 10 ** 30 + 57), statistics.stdev(range(100)))
    print(heapq.nsmallest(3, (random.random() for _ in range(10000))), list(itertools.permutations(range(4)))[17])
    print(functools.reduce(lambda a, b: a * 31 + b & 0xffffffff, array.array("H", range(5000))), struct.pack("<dqH", 1.5, -3, 9))
    print(unicodedata.normalize("NFD", "Ångström").encode(), uuid.uuid5(uuid.NAMESPACE_DNS, "etch"), gc.isenabled())
    print(ET.tostring(ET.fromstring("<a x='1'><b>t</b><c/>u</a>")), [hashlib.new(h, data).hexdigest()[:12] for h in ("md5", "sha512", "blake2s", "sha3_384")])
    database()
    calls_back()
    threads()
    errors()
    talk()


main()
