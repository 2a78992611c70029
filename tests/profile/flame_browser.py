# SPDX-License-Identifier: MIT
"""Flame graphs in a real browser: the tests click and type in them."""

import json
import re
import shutil

import pytest

from conftest import run


def browser(page, tmp_path, *options):
    """The document after its scripts have run, and what they wrote to the console."""
    names = ("chromium", "chromium-headless-shell", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if not chromium:
        pytest.skip(f"none of {', '.join(names)} is installed")
    p = run([chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'chromium'}", "--enable-logging=stderr",
             "--virtual-time-budget=2000", *options, "--dump-dom", page], timeout=120)
    return p.stdout, [line for line in p.stderr.splitlines() if "CONSOLE" in line]


def drive(picture, tmp_path, script):
    """Runs a script in a page with the picture: what it has pushed to `steps`. Nothing may be written to the console."""
    svg = picture.read_text().partition("?>")[2].replace("<![CDATA[", "").replace("]]>", "")
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><meta charset=utf-8><body style='margin:0'>" + svg + "<pre id=result></pre><script>" + script
                    + ";document.querySelector('#result').textContent = JSON.stringify(steps);</script>")
    dom, console = browser(page, tmp_path)
    assert console == []
    return json.loads(re.search(r'<pre id="result">(.*?)</pre>', dom).group(1).replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))
