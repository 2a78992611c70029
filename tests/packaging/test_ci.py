# SPDX-License-Identifier: MIT
"""What hosted services and pre-commit take from this repository, run as they run it: scripts/action and
.pre-commit-hooks.yaml."""
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from check_files import TWO, WRONG, sarif_schema  # noqa: F401 (fixture)
from conftest import ROOT, run

yaml = pytest.importorskip("yaml", reason="PyYAML is not in .venv: make deps")
ACTION = ROOT / "scripts" / "action"
BIN = Path(sys.executable).parent


def test_services_can_read_them():
    """By the schema that GitHub's editors use, and by pre-commit."""
    run([BIN / "check-jsonschema", "--builtin-schema", "vendor.github-actions", ACTION / "action.yml"])
    run([BIN / "pre-commit", "validate-manifest", ROOT / ".pre-commit-hooks.yaml"])
    run([BIN / "pre-commit", "validate-config", ROOT / ".pre-commit-config.yaml"])


def test_the_guides_workflow_and_configuration(tmp_path):
    """They are valid, and name inputs and hooks that there are."""
    page = (ROOT / "docs" / "guides" / "code-scanning.md").read_text()
    texts = dict(re.findall(r"^```yaml file=(\S+)\n(.*?)^```$", page, re.M | re.S))
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    run([BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", tmp_path / "etch.yml"])
    run([BIN / "pre-commit", "validate-config", tmp_path / ".pre-commit-config.yaml"])
    step = yaml.safe_load(texts["etch.yml"])["jobs"]["check"]["steps"][-1]
    assert "/scripts/action@" in step["uses"]
    assert set(step["with"]) <= set(yaml.safe_load((ACTION / "action.yml").read_text())["inputs"])
    hook, = yaml.safe_load(texts[".pre-commit-config.yaml"])["repos"][0]["hooks"]
    assert hook["id"] in [h["id"] for h in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())]


class Runner:
    """Runs a composite action's steps as a runner of GitHub does, except for what other actions do: those are noted."""

    def __init__(self, workspace, path):
        self.workspace, self.path, self.used = workspace, path, []
        self.summary = self.log = ""

    def value(self, text):
        """Of an expression or a text with some: names, ==, != and literals."""
        def name(x):
            if x[0] == "'":
                return x[1:-1]
            part = x.split(".")
            return self.inputs[part[1]] if part[0] == "inputs" else self.outputs[part[1]].get(part[3], "")

        def one(m):
            x = re.fullmatch(r"([\w.-]+)(?: (==|!=) ([\w.-]+|'\w*'))?", m[1])
            if not x[2]:
                return name(x[1])
            return str((name(x[1]) == name(x[3])) == (x[2] == "==")).lower()
        return re.sub(r"\$\{\{ (.*?) \}\}", one, text)

    def __call__(self, **inputs):
        """The action's conclusion and outputs."""
        action = yaml.safe_load((ACTION / "action.yml").read_text())
        for name, what in action["inputs"].items():
            assert not what.get("required") or name in inputs
        assert set(inputs) <= set(action["inputs"])
        self.inputs = {name: what.get("default", "") for name, what in action["inputs"].items()} | inputs
        self.outputs, self.used, status = {}, [], 0
        for number, step in enumerate(action["runs"]["steps"]):
            if status or self.value(step.get("if", "true")) != "true":
                continue
            if "uses" in step:
                self.used.append((step["uses"], {k: self.value(v) for k, v in step["with"].items()}))
                continue
            files = {name: self.workspace.parent / f"runner-{number}-{name}" for name in ("OUTPUT", "SUMMARY", "PATH")}
            for file in files.values():
                file.write_text("")
            env = {k: v for k, v in os.environ.items() if k in ("HOME", "LANG")} | {
                "PATH": self.path, "GITHUB_ACTION_PATH": str(ACTION), "GITHUB_OUTPUT": str(files["OUTPUT"]),
                "GITHUB_STEP_SUMMARY": str(files["SUMMARY"]), "GITHUB_PATH": str(files["PATH"]),
                **{k: self.value(v) for k, v in step.get("env", {}).items()}}
            assert step["shell"] == "bash"
            p = run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=self.workspace, env=env, ok=None)
            self.log, status = self.log + p.stdout + p.stderr, p.returncode
            self.outputs[step.get("id")] = dict(line.split("=", 1) for line in files["OUTPUT"].read_text().splitlines())
            self.summary += files["SUMMARY"].read_text()
            self.path = ":".join([*files["PATH"].read_text().split(), self.path])
        return status, {name: self.value(what["value"]) for name, what in action["outputs"].items()}


@pytest.fixture
def project(tmp_path):
    """A checkout with a build folder: one object with a finding, and one without."""
    out = tmp_path / "project" / "out dir"
    out.mkdir(parents=True)
    for name, text in ("old", WRONG), ("fine", "\t.text\n\tret\n\t.section .note.GNU-stack\n"):
        (out / f"{name}.s").write_text(text)
        run(["gcc", "-c", "-o", out / f"{name}.o", out / f"{name}.s"])
    return out.parent


def new_finding(project):
    (project / "new.s").write_text(TWO)
    run(["gcc", "-c", "-o", project / "out dir" / "new.o", project / "new.s"])


def path_with(etch):
    return f"{etch.parent}:/usr/bin:/bin"


def test_the_action_is_green_on_day_one_and_red_on_what_is_new(etch, project, sarif_schema):
    github = Runner(project, path_with(etch))
    inputs = {"files": "out dir\n", "baseline": "known.json", "upload": "true"}
    status, outputs = github(**inputs)
    assert (status, outputs) == (0, {"status": "0", "sarif": "etch.sarif", "baseline-made": "known.json"})
    assert "::warning title=etch check::known.json was written" in github.log
    assert [(u.split("@")[0], with_) for u, with_ in github.used] == [
        ("github/codeql-action/upload-sarif", {"sarif_file": "etch.sarif", "category": "etch"}),
        ("actions/upload-artifact", {"name": "etch-baseline", "path": "known.json"})]
    status, outputs = github(**inputs)
    assert status == 0 and outputs["baseline-made"] == "" and len(github.used) == 1
    new_finding(project)
    status, outputs = github(**inputs)
    assert status == 1 and outputs["status"] == "1" and len(github.used) == 1  # what was found is uploaded
    assert "ETCH-S001" in github.log and "ETCH-S001" in github.summary and "````text" in github.summary
    sarif = json.loads((project / "etch.sarif").read_text())
    sarif_schema.validate(sarif)
    assert {(x["ruleId"], x["baselineState"]) for x in sarif["runs"][0]["results"]} >= {
        ("ETCH-C001", "unchanged"), ("ETCH-S001", "new")}


def test_the_actions_inputs(etch, project):
    github = Runner(project, path_with(etch))
    files = {"files": "out dir/old.o\n\nout dir/fine.o"}
    assert github(**files)[0] == 1 and not github.used
    assert github(**files, **{"fail-on": "never"})[0] == 0
    assert github(**files, options="--ignore\nETCH-C001:*\n", sarif="a b.sarif")[0] == 0 and (project / "a b.sarif").exists()
    status, outputs = github(files="no such; touch injected")
    assert status == 2 and outputs["status"] == "2" and not list(project.glob("injected*"))


def test_the_action_builds_etch_where_there_is_none(project, etch):
    """In its own checkout: here that is this one, and already built."""
    if etch != ROOT / "build" / "etch":
        pytest.skip("ETCH_BUILD is another folder")
    github = Runner(project, "/usr/bin:/bin")
    assert github(files="out dir/fine.o")[0] == 0
    assert str(ROOT / "build") in github.path.split(":")


# ---- pre-commit ------------------------------------------------------------------------------------

@pytest.fixture
def committed(project, tmp_path, etch):
    """A repository whose pre-commit takes the hooks of a clone of this one. Returns a commit."""
    env = {**os.environ, "PATH": path_with(etch), "PRE_COMMIT_HOME": str(tmp_path / "home"), "GIT_CONFIG_GLOBAL": "/dev/null",
           "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org"}
    for name in [n for n in env if n.startswith("GIT_") and n[4:] in ("DIR", "INDEX_FILE", "WORK_TREE")]:
        del env[name]

    def git(*args, at=project, ok=0):
        return run(["git", *args], cwd=at, env=env, ok=ok)
    hooks = tmp_path / "hooks"
    shutil.copytree(ACTION, hooks / "scripts" / "action")
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", hooks)
    for at in (hooks, project):
        git("init", "-q", at=at)
    git("add", "-A", at=hooks)
    git("commit", "-qm", "hooks", at=hooks)
    (project / ".gitignore").write_text("out dir\n*.s\n")

    def commit(hook):
        (project / ".pre-commit-config.yaml").write_text(json.dumps(
            {"repos": [{"repo": str(hooks), "rev": git("rev-parse", "HEAD", at=hooks).stdout.strip(), "hooks": [hook]}]}))
        run([BIN / "pre-commit", "install"], cwd=project, env=env)
        git("add", "-A")
        return git("commit", "--allow-empty", "-m", "a change", ok=None)
    return commit


def test_pre_commit_of_a_build(committed, project):
    hook = {"id": "etch-check", "args": ["--baseline", "known.json", "--create-baseline", "out dir"]}
    p = committed(hook)
    assert p.returncode == 0 and re.search(r"etch check\.+Passed", p.stderr)
    new_finding(project)
    p = committed(hook)
    assert p.returncode == 1 and "ETCH-S001" in p.stderr and "ETCH-C001" not in p.stderr


def test_pre_commit_of_committed_files(committed, project):
    hook = {"id": "etch-check-committed"}
    shutil.copy(project / "out dir" / "fine.o", project / "vendor.o")
    assert committed(hook).returncode == 0
    shutil.copy(project / "out dir" / "old.o", project / "libold.so.1.2")
    (project / "text.o").write_text("no object\n")
    p = committed(hook)
    assert p.returncode == 1 and "libold.so.1.2" in p.stderr and "ETCH-C001" in p.stderr and "text.o" not in p.stderr


def test_the_hook_says_what_to_do_without_etch(tmp_path):
    shutil.copytree(ACTION, tmp_path / "scripts" / "action")
    p = run([tmp_path / "scripts" / "action" / "hook.sh", "x.o"], env={"PATH": "/usr/bin:/bin"}, ok=1)
    assert "etch check: etch is not installed, and could not be built" in p.stderr


# ---- a container --------------------------------------------------------------------------------

def test_the_container_has_what_etch_loads(etch, project):
    """Each library outside of libc, linked or loaded later, is of a package that the last stage installs."""
    last = (ACTION / "Dockerfile").read_text().split("\nFROM ")[-1]
    if not shutil.which("dpkg"):
        pytest.skip("no dpkg")
    loaded = run([etch, "check", project / "out dir" / "old.o"], env={"LD_DEBUG": "files"}, ok=1).stderr
    libraries = {lib for lib in re.findall(r"calling init: (/\S+)", loaded) if not re.search(r"/(lib(c|m)|ld-linux-x86-64)\.so", lib)}
    packages = {run(["dpkg", "-S", os.path.realpath(lib)]).stdout.split(":")[0] for lib in libraries}
    installed = set(re.search(r"--no-install-recommends (.*?) &&", last)[1].split())
    if "VERSION_CODENAME=bookworm" in Path("/etc/os-release").read_text():
        assert len(packages) > 1 and packages == installed
    else:  # The container is Debian 12. Other releases have the same under other numbers, and may lack more archives.
        of = {re.sub(r"[\d.]+(t64)?$", "", p) for p in packages}
        assert installed and {re.sub(r"[\d.]+$", "", p) for p in installed} <= of


@pytest.mark.long
def test_the_container(project, tmp_path):
    """Built by buildah from a base image that debootstrap makes, and run."""
    if os.geteuid() or not all(shutil.which(x) for x in ("buildah", "debootstrap")):
        pytest.skip("needs root, buildah and debootstrap")
    base = tmp_path / "base"
    p = run(["debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", base], ok=None, timeout=900)
    if p.returncode:
        pytest.skip("debootstrap cannot fetch the packages: " + p.stdout.splitlines()[-1])

    def buildah(*args, **kw):
        return run(["buildah", "--root", tmp_path / "root", "--runroot", tmp_path / "run", "--storage-driver", "vfs", *args], timeout=1800, **kw)
    made = buildah("from", "scratch").stdout.strip()
    buildah("copy", "-q", made, base, "/")
    for tag in ("12", "12-slim"):
        buildah("commit", "-q", made, f"docker.io/library/debian:{tag}")
    tree = tmp_path / "tree"
    tree.mkdir()
    files = run(["git", "-C", ROOT, "ls-files", "-z", "--cached"]).stdout
    run(["sh", "-c", f"tar -C '{ROOT}' --null -T - -cf - | tar -C '{tree}' -xf -"], input=files)
    buildah("bud", "--isolation", "chroot", "--network", "host", "--pull-never", "-t", "etch-check", "-f", "scripts/action/Dockerfile", ".", cwd=tree)
    image = json.loads(buildah("inspect", "--type", "image", "localhost/etch-check").stdout)["OCIv1"]["config"]
    assert image["Entrypoint"] == ["etch", "check"] and image["WorkingDir"] == "/src"
    container = buildah("from", "--pull-never", "localhost/etch-check").stdout.strip()

    def check(*args, ok=0):
        return buildah("run", "--isolation", "chroot", "-v", f"{project}:/src", container, "--", *image["Entrypoint"], *args, ok=ok)
    assert "1 in the baseline" in check("--baseline", "known.json", "--create-baseline", "out dir").stdout
    new_finding(project)
    assert "ETCH-S001" in check("--baseline", "known.json", "out dir", ok=1).stdout
