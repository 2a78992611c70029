# SPDX-License-Identifier: MIT
"""ETCHED_SHARED: objects that share their pages. A page is read-only only while all of them are armed, so one to which code
stores later is armed with its page, and given up with it. The CPU judges: the program that was never rewritten says which
values are right."""
import pytest

from conftest import STAGES, Flow, run, stray

SOURCE = """
#include <etch/imv.h>
#include <stdio.h>
#include <string.h>
#define N __attribute__((noinline))
LINKAGE ETCHED_SHARED int later = 3;                      /* stored to at any time */
LINKAGE ETCHED_SHARED int other = 4;
LINKAGE ETCHED_SHARED int early = 5;                      /* before etch_sync alone */
LINKAGE ETCHED_SHARED int never = 6;
N int get_later(void) { return later; }
N int get_other(void) { return other; }
N int get_early(void) { return early; }
N int get_never(void) { return never; }
N int sum(void) { return get_later() + 10 * get_other() + 100 * get_early() + 1000 * get_never(); }
N void store(int v) { later = v; other = v + 1; }
N void set_up(int v) { early = v; }
static void armed(const char *name, const void *at)
{
	struct etch_state s = { .size = sizeof(s) };

	etch_state_bytes(at, sizeof(int), &s);
	fprintf(stderr, "%s%s", s.sites && s.armed == s.sites ? " " : " -", name);
}
#define ARMED(x) armed(#x, ETCH_ADDR(x))
int main(int argc, char **argv)
{
	char *lo = (char *)ETCH_ADDR(later), *hi = lo, *at;
	int err = 0;

#define WITHIN(x) at = (char *)ETCH_ADDR(x), lo = at < lo ? at : lo, hi = at > hi ? at : hi
	WITHIN(other), WITHIN(early), WITHIN(never);
	set_up(argc + 7);
	if (!strcmp(argv[1], "one"))
		err |= etch_sync(&later, sizeof(later));
	if (!strcmp(argv[1], "each"))
		err |= etch_sync(&later, sizeof(later)) | etch_sync(&other, sizeof(other));
	if (!strcmp(argv[1], "set up"))
		err |= etch_sync(&early, sizeof(early));
	if (!strcmp(argv[1], "all") || !strcmp(argv[1], "released"))
		err |= etch_sync_bytes(lo, hi - lo + sizeof(int));
	if (!strcmp(argv[1], "released"))
		err |= etch_release(&never, sizeof(never));
	ARMED(later), ARMED(other), ARMED(early), ARMED(never);
	printf("%d", sum());
	fflush(stdout);
	store(argc + 20);
	printf(" %d %d %ld\\n", sum(), err, etch_verify(0, 0));
	return 0;
}
"""
# What is armed, in the order of `ARMED` above, where the step knows it; the object step alone knows nothing of other files.
ARMED = {
    "one": {"linked": " -later -other -early never"},
    "each": {"linked": " -later -other -early never"},
    "set up": {"linked": " -later -other early never", "object": " -later -other -early -never"},
    "all": {"linked": " later other early never", "object": " later other early never"},
    "released": {"linked": " -later -other early -never", "object": " -later -other -early -never"},
}


@pytest.fixture(scope="module", params=["", "static"], ids=["global", "static"])
def linkage(request):
    return request.param


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("case", ARMED)
def test_what_others_on_the_page_do_makes_no_value_stale(flow, stage, case, linkage):
    exe = flow.program(SOURCE.replace("LINKAGE", linkage), stage)
    p = run([exe, case], ok=None)
    if case == "all" and stage != "plain":  # all of the page is armed: the store is named, and not lost
        assert (p.returncode, p.stdout[:4]) == (0, "6943"), p.stdout + p.stderr
        p = stray([exe, case], ok=None)
        assert p.returncode == -11 and p.stdout == "6943" and "stray store: store+" in p.stderr, p.stderr
    else:
        assert (p.returncode, p.stdout) == (0, "6943 7152 0 0\n"), p.stdout + p.stderr
    if stage in ARMED[case] and not (linkage and stage == "object"):
        assert p.stderr.startswith(ARMED[case][stage]), p.stderr


LOADED = """
#include <dlfcn.h>
#include <etch/imv.h>
#include <stdio.h>
#define N __attribute__((noinline))
ETCHED_SHARED int later = 3;
ETCHED_SHARED int other = 4;                              /* stored to by the plugin alone */
N int get_later(void) { return later; }
N int get_other(void) { return other; }
N void store(int v) { later = v; }
int main(int argc, char **argv)
{
	char *a = (char *)ETCH_ADDR(later), *b = (char *)ETCH_ADDR(other), *lo = a < b ? a : b, *hi = a < b ? b : a;
	struct etch_state s = { .size = sizeof(s) };
	void (*plain)(int);
	int err = etch_sync_bytes(lo, hi - lo + sizeof(int));
	void *plugin;

	etch_state_bytes(a, sizeof(later), &s);
	plugin = dlopen(argv[1], RTLD_NOW);
	plain = plugin ? (void (*)(int))dlsym(plugin, "plain") : NULL;
	store(argc + 20);
	if (plain)
		plain(7);
	printf("%d %d %d %ld %d\\n", get_later(), get_other(), err, etch_verify(0, 0), s.sites && s.armed == s.sites);
	return 0;
}
"""
PLUGIN = "#include <etch/imv.h>\nextern int other;\nETCH_DECLARE(other);\nvoid plain(int v) { other = v; }\n"


@pytest.mark.parametrize("stage", ["object", "linked"])
def test_a_module_that_stores_to_one_releases_those_that_its_page_guarded(tmp_path, build, stage):
    """Both are armed with their page. The plugin brings a store to one: the page becomes writable, for the other too."""
    flow = Flow(tmp_path, build)
    objects = [flow.compile(flow.source(LOADED, "loaded.c"), ["-O2", "-fPIE"]),
               flow.compile(flow.source(PLUGIN, "plugin.c"), ["-O2", "-fPIC"])]
    flow.rewrite(*objects)
    lib = [f"-L{build}", "-letch", f"-Wl,-rpath,{build}"]
    run(["gcc", "-pie", "-rdynamic", "-o", tmp_path / "loaded", objects[0], *lib, "-pthread", "-ldl"])
    run(["gcc", "-shared", "-o", tmp_path / "plugin.so", objects[1], *lib])
    if stage == "linked":
        flow.rewrite(tmp_path / "loaded", tmp_path / "plugin.so")
    assert run([tmp_path / "loaded", tmp_path / "plugin.so"]).stdout == "22 7 0 0 1\n"
