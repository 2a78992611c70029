# SPDX-License-Identifier: MIT
"""etch tables where systems meet: debuginfod's protocol, by which a fleet shares the tables, and systemd's units."""

import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from conftest import ROOT, build_id, run
from documents import DOCS

UNITS = [ROOT / "scripts" / "deb" / f"etch-tables.{kind}" for kind in ("service", "timer")]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    root = tmp_path_factory.mktemp("program")
    (root / "main.c").write_text("int f(int x) { return x + 1; }\nint main(void) { return f(-1); }\n")
    run(["gcc", "-O1", "-o", root / "main", root / "main.c"])
    return root / "main"


def page(prompt, **places):
    """The guide's commands after a prompt, for other places than it names."""
    block = re.search(r"^## For a fleet\n.*?^```console\n(.*?)^```", (DOCS / "guides/tables.md").read_text(), re.M | re.S)[1]
    text = ""
    for line in block.splitlines():
        if line[0] != ">":
            at, _, line = line.partition("$ ")
        text += line.lstrip("> ") + "\n" if at == prompt else ""
    for said, path in places.values():
        assert said in text, (said, text)
        text = text.replace(said, str(path))
    return text


@contextmanager
def server(argv, answers, **kw):
    """A server, from when answers() holds."""
    p = subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)
    try:
        while not answers():
            assert p.poll() is None, f"{argv} has ended: {p.returncode}"
            time.sleep(0.05)
        yield
    finally:
        p.terminate()
        p.wait()


def get(url):
    """What is there; None: nothing, or nobody."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.read()
    except (urllib.error.URLError, ConnectionError):
        return None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def fetch_by_the_page(program, port, tmp_path):
    """As the guide's client does, without root. Returns where the tables are then."""
    commands = page("client", port=("http://server:8002", f"http://127.0.0.1:{port}"), file=("/usr/bin/bash", program),
                    cache=("/var/cache/etch", tmp_path / "fetched"), root=("sudo ", ""))
    run(["sh", "-e", "-c", commands], env={**os.environ, "DEBUGINFOD_CACHE_PATH": str(tmp_path / "client")})
    return tmp_path / "fetched"


def test_a_web_server_and_debuginfods_client(etch, program, tmp_path):
    """The guide, word by word."""
    cache, name, port = tmp_path / "cache", build_id(program), free_port()
    run([etch, "tables", "update", "-q", "--directory", cache, program])
    (cache / "00ff").touch()    # of a file for which none can be made
    commands = page("server", cache=("/var/cache/etch", cache), root=("/srv/etch", tmp_path / "srv"), port=("8002", f"--bind 127.0.0.1 {port}"))
    loop, _, serve = commands.rstrip().rpartition("\n")
    run(["sh", "-c", loop])
    url = f"http://127.0.0.1:{port}/buildid/"
    with server(serve.split(), lambda: get(f"http://127.0.0.1:{port}/") is not None):
        assert get(f"{url}{name}/section/.etch.unwind") == (cache / name).read_bytes()
        assert get(f"{url}00ff/section/.etch.unwind") is None
        if not shutil.which("debuginfod-find"):
            pytest.skip("debuginfod-find is not installed")
        fetched = fetch_by_the_page(program, port, tmp_path)
    assert {p.name: p.read_bytes() for p in fetched.iterdir()} == {name: (cache / name).read_bytes()}
    p = run([etch, "tables", "status", program], env={**os.environ, "ETCH_SIDECAR_DIR": str(fetched)})
    assert f"{fetched}/{name}\n" in p.stdout


def test_a_rewritten_files_section_is_no_sidecar(etch, program, tmp_path):
    """debuginfod gives it by the build-id that the file had before: it does not say what it was made of."""
    if not shutil.which("debuginfod") or not shutil.which("debuginfod-find"):
        pytest.skip("debuginfod is not installed")
    (tmp_path / "served").mkdir()
    run([etch, "rewrite", "--only", "orc", "-o", tmp_path / "served/main", program])
    run([etch, "rewrite", "--only", "orc", "--sidecar", tmp_path, program])
    name, port = build_id(program), free_port()
    with server(["debuginfod", "-F", "-p", port, "-d", ":memory:", "-c", 1, tmp_path / "served"],
                lambda: get(f"http://127.0.0.1:{port}/buildid/{name}/executable"), cwd=tmp_path,
                env={**os.environ, "TMPDIR": str(tmp_path), "DEBUGINFOD_URLS": ""}):
        fetched = fetch_by_the_page(program, port, tmp_path)
    assert (fetched / name).read_bytes() == (tmp_path / name).read_bytes()[128:]
    p = run([etch, "tables", "status", "--directory", fetched, program])
    assert f"({fetched}/{name} is of an earlier format)\n" in p.stdout


def verify(units, etch, folder):
    """What systemd says of units, with etch where it was built."""
    folder.mkdir()
    for name, text in units.items():
        (folder / name).write_text(text.replace("/usr/bin/etch", str(etch)))
    p = run(["systemd-analyze", "verify", "--man=no", *(folder / name for name in units)], ok=None)
    return p.stdout + p.stderr


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_takes_the_units(etch, tmp_path):
    units = {p.name: p.read_text() for p in UNITS}
    assert verify(units, etch, tmp_path / "good") == ""
    # It would say so.
    wrong = {name: text.replace("RandomizedDelaySec", "RandomDelaySec") for name, text in units.items()}
    assert "RandomDelaySec" in verify(wrong, etch, tmp_path / "bad")


def test_the_units_command_is_one_that_etch_takes(etch, program, tmp_path):
    command = re.search(r"^ExecStart=/usr/bin/etch (.*)$", UNITS[0].read_text(), re.M)[1].split()
    p = run([etch, *command, "--directory", tmp_path / "cache", program])
    assert p.stdout.startswith("1 table made, 0 removed;")
