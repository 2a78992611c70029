# SPDX-License-Identifier: MIT
"""What README.md, docs/tutorials and docs/guides tell a reader to type is typed here.

A fenced block of these pages says in its info string what it is:

    ```make file=Makefile     write this file
    ```sh run                 run this with `sh -e`
    ```text expect            how the standard output of the last run must end; in README.md, all that it prints, where
                              `...` stands for anything

Tutorials and guides run in a copy of tests/data/guides, with an installed etch; README.md where
build/ and lib/ are those of the checkout, all of it in one shell.
"""
import os
import re
import shutil

import pytest

from conftest import DATA, ROOT, run

GUIDES = ROOT / "docs" / "guides"
TUTORIALS = ROOT / "docs" / "tutorials"
# What a guide needs that make deps does not bring.
NEEDS = {"cmake": ["cmake", "ninja"], "meson": ["meson", "ninja"], "ninja": ["ninja"],
         "autotools": ["autoreconf", "automake"], "bolt": ["llvm-bolt-16"], "rust": ["cargo", "rustc"], "go-zig": ["go"],
         "bazel": ["bazel"]}
PAGES = sorted(p.stem for p in GUIDES.glob("*.md"))
BLOCK = re.compile(r"^```(\w+)[ \t]*([^\n]*)\n(.*?)^```$", re.M | re.S)


def blocks(page):
    """(what it is, the text) of each block that says what it is."""
    for language, info, text in BLOCK.findall(page.read_text()):
        if info:
            yield info, text
        else:
            assert language != "sh", f"{page.name}: a block of commands that no test runs:\n{text}"


def follow(page, directory, env):
    """Does what a page says. Returns the number of commands blocks run."""
    out, runs = None, 0
    for info, text in blocks(page):
        if info.startswith("file="):
            (directory / info[5:]).parent.mkdir(parents=True, exist_ok=True)
            (directory / info[5:]).write_text(text)
        elif info == "run":
            out = run(["sh", "-e"], input=text, cwd=directory, env=env, timeout=900).stdout.splitlines()
            runs += 1
        elif info == "expect":
            want = text.splitlines()
            assert out is not None and out[-len(want):] == want, f"{page.name}: {out[-len(want):]}"
        else:
            pytest.fail(f"{page.name}: a block that is neither file=, run nor expect: {info}")
    return runs


@pytest.fixture(scope="module")
def installed(build, tmp_path_factory):
    """An environment in which etch has been installed; ETCH_GUIDES=installed: as packages, by the caller."""
    if os.environ.get("ETCH_GUIDES") == "installed":
        assert shutil.which("etch") == "/usr/bin/etch"
        return environment()
    prefix = tmp_path_factory.mktemp("prefix")
    run(["make", "-s", "-C", ROOT, "-o", "all", f"B={os.path.relpath(build, ROOT)}", f"PREFIX={prefix}", "install"])
    return environment(PATH=f"{prefix}/bin:{os.environ['PATH']}", PKG_CONFIG_PATH=f"{prefix}/lib/pkgconfig",
                       LD_LIBRARY_PATH=f"{prefix}/lib", CMAKE_PREFIX_PATH=str(prefix))


def environment(**more):
    """What make sets for the tests is not for the guides."""
    env = dict(os.environ, **more)
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CFLAGS", "LDFLAGS", "DESTDIR", "B", "CC"):
        env.pop(name, None)
    return env


# What @bazel_tools takes from there; Debian's package has rules that are too new for its Bazel, and nothing is fetched.
RULES_CC = "".join(f"{name} = native.{name}\n" for name in ("cc_binary", "cc_library", "cc_toolchain", "cc_toolchain_suite"))


def bazel_home(home):
    """A home directory with Bazel's options: no server, no network, nothing in the real one."""
    (home / "rules_cc" / "cc").mkdir(parents=True)
    for name, text in {"WORKSPACE": "", "cc/BUILD": "", "cc/defs.bzl": RULES_CC}.items():
        (home / "rules_cc" / name).write_text(text)
    rules = {"rules_cc": home / "rules_cc", **{f"rules_{n}": f"/usr/share/bazel/rules/{n}" for n in ("java", "proto")},
             "platforms": "/usr/share/bazel/platforms"}
    missing = [str(path) for path in rules.values() if not os.path.isdir(path)]
    if missing:
        pytest.skip(f"Bazel without a network lacks {' '.join(missing)}: apt install bazel-rules-java bazel-rules-proto bazel-platforms")
    (home / ".bazelrc").write_text(f"startup --batch --output_user_root={home}/root\nbuild --spawn_strategy=sandboxed\n" + "".join(
        f"build --override_repository={name}={path}\n" for name, path in rules.items()))
    return home


def with_compilers():
    """Each guide with cc, and with clang; this for the slow build systems, and the slowest whole, is left to make test-all."""
    for guide in PAGES:
        for compiler in (None, "clang"):
            slow = guide in ("autotools", "go-zig", "bazel") or compiler and guide in ("cmake", "meson")
            yield pytest.param(guide, compiler, marks=[pytest.mark.long] * bool(slow), id=f"{guide}-{compiler or 'cc'}")


@pytest.mark.parametrize("guide,compiler", with_compilers())
def test_guide(guide, compiler, installed, tmp_path):
    missing = [tool for tool in NEEDS.get(guide, []) if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed, and not needed to build etch: {' '.join(missing)}")
    if compiler and guide in ("bolt", "lto", "ninja", "rust", "go-zig"):
        pytest.skip("this guide names its compilers itself")
    if guide == "rust" and [int(n) for n in re.findall(r"\d+", run(["rustc", "--version"]).stdout)[:2]] < [1, 87]:
        pytest.skip("needs rustc 1.87 or later")
    if guide == "profile" and (refused := run(["etch", "profile", "-q", "--format", "folded", "--", "true"], ok=None, env=installed).stderr):
        pytest.skip(refused.strip())  # perf_event_open(2)
    for f in (DATA / "guides").iterdir():
        shutil.copy(f, tmp_path)
    env = dict(installed, CC=compiler) if compiler else installed
    if guide == "bazel":
        env = dict(env, HOME=str(bazel_home(tmp_path / "home")))
    assert follow(GUIDES / f"{guide}.md", tmp_path, env)


@pytest.mark.parametrize("tutorial", sorted(p.stem for p in TUTORIALS.glob("*.md")))
def test_tutorial(tutorial, installed, tmp_path):
    if tutorial == "profile" and (refused := run(["etch", "profile", "-q", "--format", "folded", "true"], ok=None, env=installed).stderr):
        pytest.skip(refused.strip())  # perf_event_open(2)
    assert follow(TUTORIALS / f"{tutorial}.md", tmp_path, installed) > 1


def test_readme(build, tmp_path):
    """One block after the other pasted into one shell."""
    (tmp_path / "build").symlink_to(build)
    (tmp_path / "lib").symlink_to(ROOT / "lib")
    runs, wants = [], {}
    for info, text in blocks(ROOT / "README.md"):
        assert info in ("run", "expect"), info
        if info == "run":
            runs.append(text)
        else:
            wants[len(runs) - 1] = text
    env = {name: value for name, value in os.environ.items() if name != "ETCH"}
    out = run(["sh", "-e"], input="exec 2>&1\n" + "echo =====\n".join(runs), cwd=tmp_path, env=env).stdout.split("=====\n")
    assert len(out) == len(runs) == len(wants) > 3
    for i, want in wants.items():
        assert re.fullmatch(".*".join(map(re.escape, want.split("..."))), out[i], re.S), out[i]


def test_links():
    """Every file that README.md and the guides link to exists, and every heading."""
    for page in (ROOT / "README.md", ROOT / "docs" / "live-patching.md", ROOT / "docs" / "check.md", *GUIDES.glob("*.md"), *TUTORIALS.glob("*.md")):
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if re.match(r"https?:", target):
                continue
            file, _, heading = target.partition("#")
            file = (page.parent / file).resolve() if file else page
            assert file.exists(), f"{page.name} links to {target}"
            if heading:
                titles = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
                anchors = [re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles]
                assert heading in anchors, f"{page.name} links to {target}"
