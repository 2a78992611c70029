# SPDX-License-Identifier: MIT
"""Generated reads, in many contexts, at random values that change while the
program runs: unprocessed, object-rewritten and link-rewritten programs must print
the same bytes. See generate_reads.py and tests/data/forms/driver.c."""
import os
import shutil
import sys

import pytest

from conftest import CCS, DATA, STAGES, TESTS, Flow, run

FORMS = DATA / "forms"
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os"]
MODES = {  # compiler flags, linker flags; pic: the reads are in a shared object
    "pic": (["-fPIC"], []),
    "pie": (["-fPIE"], ["-pie"]),
    "nopie": (["-fno-pie"], ["-no-pie"]),
    "cet": (["-fPIE", "-fcf-protection=full"], ["-pie"]),
}
READS = 300 if os.environ.get("ETCH_TESTS") == "all" else 150  # make test: half of each program
ROUNDS = 9
VALUES = 0x5eed
# The issue asks for 2,000 sites a compiler. These are the 20 builds of one, so each
# of them has to bring its part, and has to bring twice that.
SITES = 2 * 2000 // (len(LEVELS) * len(MODES)) * READS // 300
# The generated code adds and multiplies signed values that overflow.
COMMON = ["-w", "-fwrapv", f"-I{FORMS}"]


def seed(cc, level, mode):
    """A different program for each build."""
    return 1 + CCS.index(cc) + 2 * LEVELS.index(level) + 10 * list(MODES).index(mode)


def generate(directory, number, reads=READS):
    run([sys.executable, TESTS / "site" / "generate_reads.py", number, reads, directory])


def link(flow, directory, mode, objects, linked):
    """The program in `directory`, from `objects`; rewritten too where `linked`."""
    cc, flags = flow.cc, MODES[mode][1]
    program, files = directory / "program", [directory / o for o in objects]
    if mode == "pic":
        library = directory / "libgen.so"
        run([cc, "-shared", "-o", library, *files[:-1], f"-L{flow.build}", "-letch"])
        run([cc, "-rdynamic", "-o", program, files[-1], library, f"-L{flow.build}", "-letch",
             f"-Wl,-rpath,{directory}:{flow.build}"])
        processed = [library, program]
    else:
        run([cc, *flags, "-o", program, *files, flow.build / "libetch.a", "-pthread"])
        processed = [program]
    if linked:
        flow.rewrite(*processed)
    return program, processed[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("level", LEVELS)
def test_same_output(tmp_path, build, cc, level, mode):
    flow = Flow(tmp_path, build, cc)
    number = seed(cc, level, mode)
    generate(tmp_path, number)
    flags = [*COMMON, f"-I{tmp_path}", level, *MODES[mode][0]]
    objects = [flow.compile(tmp_path / f"{name}.c", flags).name for name in ("gen", "gen2", "shadow")]
    objects.append(flow.compile(FORMS / "driver.c", flags).name)
    outputs, infos = {}, {}
    for stage in STAGES:
        directory = tmp_path / stage
        directory.mkdir()
        for o in objects:
            shutil.copy(tmp_path / o, directory / o)
        if stage != "plain":
            files = [directory / o for o in objects]
            if number % 2:
                flow.rewrite(*files)
            else:  # each alone: what gen2.c reads is then found by the link step
                for f in files:
                    flow.rewrite(f)
        program, holder = link(flow, directory, mode, objects, stage == "linked")
        r = run([program, VALUES, ROUNDS], ok=None)
        assert r.returncode == 0, (stage, r.returncode, r.stderr, [
            line for line in r.stdout.splitlines() if not line[:1].isdigit()][:20])
        outputs[stage] = r.stdout
        infos[stage] = {k: int(v) for k, v in (w.split("=") for w in r.stderr.split())}
    assert outputs["plain"] == outputs["object"]
    assert outputs["plain"] == outputs["linked"]
    assert outputs["plain"].count("\n") == READS * (ROUNDS + 4)

    # It was not the same for want of sites.
    sites = flow.sites(holder)
    found = [s for s in sites if s["kind"] == "load" and s["form"] not in ("", "-", "none")]
    live = [s for s in found if s["live"] in ("yes", "swap")]
    assert len(found) >= SITES
    assert infos["plain"]["armed"] == 0
    for stage in ("object", "linked"):
        # At the end of the run most objects are armed, and their live sites hold
        # immediates except for 64-bit values that do not fit. Without the link step
        # those that other files can name are loads until they are synced. clang -Os returns with the address of three
        # of the four structures in rdx, which may be a second return value: these are never armed.
        least = 1 / 3 if stage == "object" else 2 / 5 if (cc, level) == ("clang", "-Os") else 1 / 2
        assert infos[stage]["armed"] + infos[stage]["unfit"] > len(live) * least
        assert infos[stage]["armed"] > 3 * infos[stage]["unfit"]
    assert infos["linked"]["sites"] >= len(found)
    assert infos["object"]["patched_at_start"] > 0
    if mode == "pic":
        # What is exported may be another module's by the time it is read: its sites,
        # through the GOT, are the loader's business, and nobody else's.
        exported = [s for s in live if s["object"] not in ("os", "oh", "oy")]
        assert infos["linked"]["patched_at_start"] <= len(exported)
        assert infos["linked"]["patched_at_start"] < infos["object"]["patched_at_start"]
    else:
        assert infos["linked"]["patched_at_start"] == 0


@pytest.mark.long
def test_every_form_of_the_compilers_is_generated(tmp_path, build):
    """The contexts reach most forms: over a few builds of both compilers each of
    mov, movzx, movsx, add, sub, and, or, xor, cmp, imul at several widths."""
    forms = set()
    builds = [("gcc", ["-O2", "-fPIE"]), ("clang", ["-O1", "-fno-pie"]), ("gcc", ["-Os", "-fno-pie"]), ("clang", ["-O3", "-fPIE"])]
    for number, (cc, flags) in enumerate(builds):
        directory = tmp_path / str(number)
        directory.mkdir()
        flow = Flow(directory, build, cc)
        generate(directory, 100 + number, 300)
        o = flow.compile(directory / "gen.c", [*COMMON, *flags])
        flow.rewrite(o)
        forms |= {s["form"] for s in flow.sites(o)}
    families = {"mov", "movzx", "movsx", "add", "adc", "sbb", "sub", "and", "or", "xor", "cmp", "imul", "push"}
    missing = {f for f in families if not any(form.startswith(f) for form in forms)}
    assert not missing, sorted(forms)
