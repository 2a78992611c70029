# SPDX-License-Identifier: MIT
"""What etch/imv.h promises of a call's surroundings: a thread may be canceled in it, and it takes little stack."""

import subprocess

import pytest

from conftest import DATA, INCLUDE, run

LIB = DATA / "lib"


def link(build, etch, directory, source, shared, *flags):
    obj, exe = directory / "a.o", directory / "a"
    run(["gcc", "-O2", "-D_GNU_SOURCE", f"-I{INCLUDE}", *flags, "-c", LIB / source, "-o", obj])
    run([etch, "rewrite", obj])
    lib = [f"-L{build}", "-letch", f"-Wl,-rpath,{build}"] if shared else [build / "libetch.a"]
    run(["gcc", "-o", exe, obj, *lib, "-Wl,-z,now,--build-id", "-pthread"])
    run([etch, "rewrite", "--only", "imv,pv", exe])
    return exe


@pytest.fixture(scope="module", params=[False, True], ids=["static", "shared"])
def canceled(request, build, etch, tmp_path_factory):
    return link(build, etch, tmp_path_factory.mktemp("cancel"), "cancel.c", request.param)


@pytest.mark.parametrize("what", ["set", "batch", "sync", "pv", "info", "unload"])
def test_a_canceled_thread_does_not_stop_the_others(canceled, what):
    """The class: a thread that ends anywhere in a call, of whatever function takes the lock."""
    p = subprocess.run([canceled, what], capture_output=True, text=True)
    assert (p.returncode, p.stdout) == (0, "done\n")


def test_the_cancel_state_is_the_callers_again(canceled):
    assert run([canceled, "states"]).stdout == "done\n"


def test_a_cancellation_that_waits_acts_behind_the_call(canceled, tmp_path):
    """Of both types; that of etch_unwind_prepare is a brother, since it reads files under a lock."""
    p = subprocess.run([canceled, "waits"], capture_output=True, text=True, env={"ETCH_SIDECAR_DIR": str(tmp_path)})
    assert (p.returncode, p.stdout) == (0, "done\n")


@pytest.mark.parametrize("shared", [False, True], ids=["static", "shared"])
def test_a_call_takes_less_than_2_kib_of_stack(build, etch, tmp_path, shared):
    """As etch/imv.h says; so that all of them also run on a stack of 4 KiB."""
    exe = link(build, etch, tmp_path, "set_stack.c", shared)
    rows = [line.split() for line in run([exe]).stdout.splitlines()]
    assert len(rows) == 32 and {err for _, _, err in rows} == {"0"}, rows
    assert {name: int(n) for name, n, _ in rows if int(n) >= 2048} == {}
    assert all(int(n) > 100 for _, n, _ in rows), "nothing was painted"
    assert len(run([exe, "4096"]).stdout.splitlines()) == 32
