# SPDX-License-Identifier: MIT
"""Objects and sites in different modules (tests/data/lib/modules*.c): a program, a
library and plugins that come and go, each gone as far through etch as the stage
says, or each as far as another one."""

import re
import signal

import pytest

from conftest import CCS, DATA, STAGES, Flow, run, stray

LIB = DATA / "lib"
KINDS = {
    "pic": (["-fPIC"], ["-rdynamic"]),  # the program reaches the library through its GOT
    "pie": (["-fPIE"], ["-pie", "-rdynamic"]),  # these two have copies of its objects
    "no-pie": (["-fno-pie"], ["-no-pie", "-rdynamic"]),
}


class Modules:
    """Builds and keeps every set of modules that is asked for."""

    def __init__(self, tmp, build):
        self.tmp, self.build, self.made = tmp, build, {}

    def one(self, cc, stage, source, out, flags, ldflags):
        d = self.tmp / f"{cc}-{stage}-{out}".replace("/", "_")
        d.mkdir()
        flow = Flow(d, self.build, cc)
        obj = flow.compile(LIB / source, ["-O2", *flags])
        if stage != "plain":
            flow.rewrite(obj)
        # The one libetch of the process is the shared one.
        run([cc, "-o", d / out, obj, *ldflags, f"-L{self.build}", "-letch", f"-Wl,-rpath,{self.build}",
             "-pthread", "-ldl"])
        if stage == "linked":
            flow.rewrite(d / out)
        return d / out

    def get(self, cc, kind, stages):
        key = (cc, kind, tuple(stages))
        if key not in self.made:
            d = self.tmp / "-".join([cc, kind, *stages])
            d.mkdir()
            so = ["-shared"]
            home = self.lib(cc, stages[0], "modules_home.c", "libhome.so", ["-fPIC"], so)
            link = [f"-L{home.parent}", "-lhome", f"-Wl,-rpath,{home.parent}"]
            for name, flags in (("plugin.so", []), ("stores.so", ["-DSTORES"])):
                path = self.lib(cc, stages[1], "modules_plugin.c", name, ["-fPIC", *flags], so)
                (d / name).symlink_to(path)
            cflags, ldflags = KINDS[kind]
            exe = self.one(cc, stages[2], "modules.c", f"m-{kind}-{stages[0]}-{stages[1]}", cflags, [*ldflags, *link])
            self.made[key] = exe, d
        return self.made[key]

    def lib(self, *args):
        key = args[:4]
        if key not in self.made:
            self.made[key] = self.one(*args)
        return self.made[key]


@pytest.fixture(scope="module")
def modules(tmp_path_factory, build):
    return Modules(tmp_path_factory.mktemp("modules"), build)


# home, plugins, program
MIXES = [(s, s, s) for s in STAGES] + [
    ("linked", "object", "linked"), ("object", "linked", "plain"), ("linked", "plain", "linked"),
    ("plain", "linked", "linked"), ("linked", "linked", "object")]


def go(modules, cc, kind, stages, case):
    exe, d = modules.get(cc, kind, stages)
    out = run([exe, case, d]).stdout
    assert out.endswith("done\n")
    return out


@pytest.mark.parametrize("stages", MIXES, ids="-".join)
@pytest.mark.parametrize("cc", CCS)
class TestModules:
    def test_load(self, modules, cc, stages):
        """Every module follows a set, from wherever it comes."""
        out = go(modules, cc, "pic", stages, "load")
        plugins = [int(n) for n in re.findall(r"plugin (\d+) modules 3", out)]
        assert len(plugins) == 3
        # own and flag at the least are immediates in a plugin that the tool has
        # seen, if it knows the library's objects to be armed.
        if stages[1] != "plain":
            assert all(n >= (2 if stages[0] != "plain" else 1) for n in plugins), out

    def test_fact_of_a_late_module(self, modules, cc, stages):
        if stages[1] == "plain":
            return  # no tool has seen the store: that it is caught is test_late_store_is_caught
        out = go(modules, cc, "pic", stages, "fact")
        assert ("armed 1" in out) == (stages[0] != "plain")

    def test_object_of_the_program(self, modules, cc, stages):
        go(modules, cc, "pic", stages, "upwards")

    @pytest.mark.parametrize("kind", ["pie", "no-pie"])
    def test_copied_object(self, modules, cc, kind, stages):
        go(modules, cc, kind, stages, "copy")

    def test_modules_come_and_go(self, modules, cc, stages):
        go(modules, cc, "pic", stages, "churn")


@pytest.mark.parametrize("cc", CCS)
def test_late_store_is_caught(modules, cc):
    exe, d = modules.get(cc, "pic", ("linked", "plain", "linked"))
    assert "done" in run([exe, "late", d]).stdout
    p = stray([exe, "late", d], ok=-signal.SIGSEGV)
    assert re.match(r"etch: stray store: plugin_store_flag\+0x[0-9a-f]+ \(\S*/stores\.so\) stores to the etched"
                    r" object flag__imv\+0x0,", p.stderr), p.stderr


@pytest.mark.parametrize("mark", ["ETCHED", "ETCHED_SHARED", "ETCHED_DENSE"])
def test_a_copy_of_each_kind_of_object(build, tmp_path, mark):
    """No tool has seen the library, so that only the bounds of its sections say that the object is etched."""
    (tmp_path / "home.c").write_text(f"#include <etch/imv.h>\n{mark} int there = 1;\nint ordinary = 2;\nint read_there(void) {{ return there; }}\n")
    (tmp_path / "program.c").write_text("""#include <etch/imv.h>
#include <stdio.h>
extern int there, ordinary;
int read_there(void);
int main(void)
{
	int err = etch_set(&there, 7);

	printf("%d %d %d\\n", err, read_there(), etch_set(&ordinary, 3) == ETCH_ENOTETCHED);
	return ordinary != 2;
}
""")
    link = [f"-L{build}", "-letch", f"-Wl,-rpath,{build}", "-pthread", "-ldl"]
    flow = Flow(tmp_path, build, "gcc")
    run(["gcc", "-shared", "-o", tmp_path / "libhome.so", flow.compile(tmp_path / "home.c", ["-O2", "-fPIC"]), *link])
    run(["gcc", "-no-pie", "-o", tmp_path / "program", flow.compile(tmp_path / "program.c", ["-O2", "-fno-pie"]), f"-L{tmp_path}", "-lhome",
         f"-Wl,-rpath,{tmp_path}", *link])
    assert len(re.findall("R_X86_64_COPY .* (?:there|ordinary)", run(["readelf", "-rW", tmp_path / "program"]).stdout)) == 2
    assert run([tmp_path / "program"]).stdout == "0 7 1\n"
