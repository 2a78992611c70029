# SPDX-License-Identifier: MIT
"""Large programs and libraries by other toolchains than a distribution's, for scripts/survey.py and scripts/programs: by
name from npm and PyPI, with their own clients (`npm pack`, `pip download`), the newest there is.

Each is unpacked into a directory of its own under DIRECTORY, once; nothing of it is run, installed or kept here.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path

DIRECTORY = Path(os.environ.get("ETCH_PACKAGES", "/var/tmp/etch-packages"))
# directory -> (client, package). What each is there for: docs/survey.md.
PACKAGES = {
    "bun": ("npm", "@oven/bun-linux-x64"),
    "deno": ("npm", "@deno/linux-x64-glibc"),
    "workerd": ("npm", "@cloudflare/workerd-linux-64"),
    "sass": ("npm", "sass-embedded-linux-x64"),
    "semgrep": ("pip", "semgrep"),
    "zig": ("pip", "ziglang"),
    "duckdb": ("pip", "duckdb"),
    "playwright": ("pip", "playwright"),
    "cuda": ("pip", "nvidia-cuda-nvcc-cu12"),
    "mkl": ("pip", "mkl"),
    "torch": ("pip", "torch"),
}
LIMIT = 1800    # seconds for one download


def download(client, package, where):
    """Has a client put a package's archive into a directory. Raises OSError or subprocess.SubprocessError."""
    command = {"npm": ["npm", "pack", "--silent", package],
               "pip": [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", package]}[client]
    subprocess.run(command, cwd=where, check=True, timeout=LIMIT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def unpack(archive, where):
    """A tarball of npm's, or a wheel with the modes of its files."""
    if archive.suffix != ".whl":
        with tarfile.open(archive) as f:
            for member in f:    # files alone, and none elsewhere
                if not member.isfile() or member.name.startswith("/") or ".." in Path(member.name).parts:
                    continue
                path = Path(where) / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with f.extractfile(member) as source, open(path, "wb") as out:
                    shutil.copyfileobj(source, out)
                os.chmod(path, member.mode & 0o755 | 0o644)
        return
    with zipfile.ZipFile(archive) as f:
        for member in f.infolist():
            path = f.extract(member, where)
            if not member.is_dir() and member.external_attr >> 16:
                os.chmod(path, member.external_attr >> 16 & 0o755 | 0o644)


def fetch_one(name, directory):
    client, package = PACKAGES[name]
    with tempfile.TemporaryDirectory(dir=directory, prefix=f".{name}-") as scratch:
        archives, files = Path(scratch) / "archives", Path(scratch) / "files"
        archives.mkdir()
        files.mkdir()
        download(client, package, archives)
        found = sorted(archives.iterdir())
        if len(found) != 1:
            raise OSError(f"{client} has brought {len(found)} files")
        unpack(found[0], files)
        (files / "PACKAGE").write_text(found[0].name + "\n")   # which version it is
        files.rename(directory / name)


def fetch(names=None, directory=DIRECTORY):
    """Fetches what is not there yet. {name: why not} of what cannot be had."""
    directory, failed = Path(directory), {}
    directory.mkdir(parents=True, exist_ok=True)
    for name in names or PACKAGES:
        if (directory / name).exists():
            continue
        client = PACKAGES[name][0]
        if client == "npm" and not shutil.which("npm"):
            failed[name] = "no npm"
            continue
        try:
            fetch_one(name, directory)
        except subprocess.CalledProcessError as why:
            said = (why.stderr or b"").decode(errors="replace").strip().splitlines()
            failed[name] = said[-1] if said else f"{client}: exit {why.returncode}"
        except (OSError, EOFError, subprocess.SubprocessError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as why:
            failed[name] = str(why)
    return failed
