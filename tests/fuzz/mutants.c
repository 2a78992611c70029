/* SPDX-License-Identifier: MIT */
/*
 * Structural mutants (structure.h) of good files, and every command on each:
 *
 *   mutants SEED FIRST COUNT STATE FILE...    runs them; the number and stage it is at are in STATE
 *   mutants SEED FIRST 0 OUT FILE...          writes the mutant of that number to OUT, and says what it is
 *   mutants kinds                             lists the kinds
 *
 * The mutant of a number is the same for the same SEED and FILEs. What must hold besides that nothing
 * crashes: must() here and in the targets; no mutant takes more CPU time than SECONDS. Prints how many
 * mutants could be opened; and a line for each that, once rewritten, is another file when it is
 * rewritten again. scripts/fuzz.py runs this.
 */
#include "fuzz.h"
#include "structure.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "input/archive.h"
#include "support/bounds.h"
#include "input/input.h"
#include "output/undo.h"
#include "rewrite/files.h"
#include "rewrite/rewrite.h"

#define SECONDS      120u /* of CPU time for one mutant under the sanitizers: bounds.h, ten times */
#define CHANGES_MOST 4u
#define MEMBERS_MOST 8u

#ifdef BOUNDS_SANITIZED
#include <sanitizer/lsan_interface.h>

/* More than a file of the size of the seeds may ask for (bounds.h), with what the sanitizer adds. Whole stacks of each
 * allocation are a fifth of the time: who looks at one mutant asks for them (malloc_context_size). */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1:hard_rss_limit_mb=2500:quarantine_size_mb=16:malloc_context_size=1:max_malloc_fill_size=256:detect_leaks=1:handle_sigfpe=1";
}
#endif

struct seed_file {
	const char *path;
	uint8_t *bytes;
	size_t size;
};

static struct {
	uint64_t seed;
	struct seed_file *files;
	unsigned file_count;
	int state;           /* descriptor */
	char directory[80];  /* for what rewrite reads and writes */
	uint64_t opened, again;
} run;

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static const char *mutant_make(uint64_t number, struct mutant *m)
{
	const struct seed_file *f = &run.files[number % run.file_count];
	unsigned kinds = structure_kinds(), kind = (unsigned)(number / run.file_count % kinds), tries, first, more;

	*m = (struct mutant){fuzz_copy(f->bytes, f->size), f->size, mix(run.seed ^ mix(number)), ""};
	for (tries = 0; tries < kinds && !structure_mutate(m, kind); tries++)
		kind = structure_below(m, kinds);
	first = kind;
	for (more = 1; more < CHANGES_MOST && structure_below(m, 2); more++)
		structure_mutate(m, structure_below(m, 4) ? structure_below(m, kinds) : first);
	return structure_kind(first);
}

/* ---- rewrite, as the command does it --------------------------------------------------- */

static const char *in_directory(const char *name, char out[96])
{
	snprintf(out, 96, "%s/%s", run.directory, name);
	return out;
}

static void file_write(const char *path, const uint8_t *bytes, size_t size)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0755);

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || close(fd))
		abort();
}

/* What it says of a file that it refuses is one line; nothing that it says speaks to a terminal. */
static int quietly(int (*what)(const struct input *, const struct rewrite_command *), char *path, const struct rewrite_command *o)
{
	const struct input in = {.path = path};
	char *text = NULL, *p;
	FILE *before = stderr;
	size_t size = 0, lines = 0;
	int status;

	stderr = open_memstream(&text, &size);
	if (!stderr)
		abort();
	status = what(&in, o);
	fclose(stderr);
	stderr = before;
	for (p = text; p < text + size; p++) {
		must((uint8_t)*p >= ' ' ? *p != 0x7f : *p == '\n' || *p == '\t');
		lines += *p == '\n';
	}
	must(status == EXIT_CLEAN || (status == EXIT_UNUSABLE && lines && !strncmp(text, "etch: ", 6)));
	free(text);
	return status;
}

static int rewrite_one(const struct input *in, const struct rewrite_command *o)
{
	struct name_set others = {0};

	return rewrite_file(in, o, &others);
}

/* The bytes that --undo is to give back, of a file that has a record or none: a record that is stale is none. */
static void original_of(const uint8_t *data, size_t size, struct undo *u, const uint8_t **bytes, size_t *n, int *found)
{
	struct error e;

	*found = undo_detach(data, size, u, &e);
	*bytes = u->original ? u->original : data;
	*n = u->original ? u->original_size : size;
}

static bool same(const char *path, const uint8_t *bytes, size_t size)
{
	struct error e;
	uint8_t *p;
	size_t n;
	bool equal;

	must(!file_read(path, &p, &n, &e));
	equal = n == size && !memcmp(p, bytes, size);
	free(p);
	return equal;
}

/* What else a file can get: .sframe; if it is linked, a register table, FDEs, in place of its linker's or beside them. */
static void options_more(struct rewrite_options *o, const uint8_t *data, unsigned more)
{
	Elf64_Ehdr eh;

	memcpy(&eh, data, sizeof(eh));
	o->unwind.sframe = more & 1 ? 2 + (more >> 1 & 1) : 0;
	if (eh.e_type == ET_REL)
		return;
	o->unwind.registers = more & 32 && o->unwind.encoding == ETCH_ENCODING_BLOCK;
	o->unwind.eh_frame = more & 4;
	if (o->unwind.eh_frame)
		o->unwind.replace = (enum eh_replace)((more >> 3) % 3);
}

/* A separate debug file, or a table beside: the file itself stays. */
static void rewrite_beside(const uint8_t *data, size_t size, unsigned how)
{
	struct rewrite_command o = {.make = {.orc = true, .unwind = {.jobs = 1, .map_shift = 6, .no_cfi = how & 2}}};
	char in[96], out[96];
	uint8_t *made;
	size_t n;
	struct error e;
	int status;

	in_directory("in", in);
	in_directory("out", out);
	unlink(out);
	file_write(in, data, size);
	o.make.unwind.eh_frame = true;
	o.debug_out = out;
	status = quietly(rewrite_one, in, &o);
	must(same(in, data, size));
	must(status != EXIT_UNUSABLE || access(out, F_OK));
	if (!access(out, F_OK)) {
		must(!file_read(out, &made, &n, &e));
		must(n <= 32 * size + (1u << 20));
		fuzz_elf(made, n);
		free(made);
	}
}

/* A sidecar is in proportion, and the same each time. */
static void sidecar_make(const uint8_t *data, size_t size, unsigned how)
{
	struct rewrite_options make = {.orc = true, .unwind = {.jobs = 1, .map_shift = 6, .no_cfi = how & 2, .registers = how & 4}};
	struct unwind_made done[2] = {{0}, {0}};
	unsigned i, made = 0;
	struct elf_file f;
	struct error e;

	for (i = 0; i < 2; i++) {
		uint8_t *opened = NULL;

		if (fuzz_open(&f, data, size) && !elf_is_object(&f)) {
			opened = f.bytes;
			made += !unwind_sidecar(&f, &make.unwind, &done[i], &e);
		}
		if (opened != f.bytes) /* elf_bytes_own() */
			free(opened);
		elf_close(&f);
	}
	must(!made || (made == 2 && done[0].size == done[1].size && done[0].size <= 16 * size + (20u << 20)));
	must(!made || !done[0].size || !memcmp(done[0].bytes, done[1].bytes, done[0].size));
	unwind_made_free(&done[0]);
	unwind_made_free(&done[1]);
}

/* What is written can be read, is in proportion, rewritten again it is the same, and gives the file back. */
static void rewrite_all(const uint8_t *data, size_t size, unsigned how, uint64_t number)
{
	struct rewrite_command o = {.make = {.imv = true, .pv = true, .orc = true, .ex = true, .unwind = {.jobs = 1, .map_shift = 6}}};
	char in[96], out[96], again[96], back[96];
	const uint8_t *want;
	size_t want_size, made_size;
	struct undo undo = {0}, now = {0};
	uint8_t *made;
	struct elf_file f;
	struct error e;
	int found, status;

	in_directory("in", in);
	in_directory("out", out);
	in_directory("again", again);
	in_directory("back", back);
	o.make.unwind.encoding = how & 1 ? ETCH_ENCODING_ORC : ETCH_ENCODING_BLOCK;
	o.make.unwind.no_cfi = how & 2;
	if ((how & 12) == 12)
		o.make.imv = o.make.pv = false;
	options_more(&o.make, data, how >> 8);
	unlink(out);
	file_write(in, data, size);
	o.output = out;
	status = quietly(rewrite_one, in, &o);
	must(status != EXIT_UNUSABLE || access(out, F_OK));
	must(same(in, data, size));
	if (status == EXIT_UNUSABLE)
		return;
	must(!file_read(out, &made, &made_size, &e));
	must(made_size <= 32 * size + (20u << 20)); /* MAX_FILL of tool/output/segment_place.c, and the record */
	must(fuzz_open(&f, made, made_size));
	elf_close(&f);
	o.output = again;
	status = quietly(rewrite_one, out, &o);
	if (status == EXIT_UNUSABLE || !same(again, made, made_size)) {
		printf("again %" PRIu64 " %s\n", number, status == EXIT_UNUSABLE ? "refused" : "other bytes");
		run.again++;
	}
	original_of(data, size, &undo, &want, &want_size, &found);
	if (undo_detach(made, made_size, &now, &e) == 1) {
		o.output = back;
		must(quietly(undo_file, out, &o) == EXIT_CLEAN);
		must(same(back, want, want_size));
	} else {
		/* No space for a record, and what was there is there still. */
		must(!now.original && (found < 0 || (made_size == size && !memcmp(made, data, size)) || !undo.kept));
	}
	undo_free(&undo);
	undo_free(&now);
	free(made);
}

/* ---- archives -------------------------------------------------------------------------- */

static void archive_all(const uint8_t *data, size_t size)
{
	struct inputs l = {0};
	char path[32];
	int fd = fuzz_path(data, size, path);
	size_t i, n;
	struct error e;
	uint8_t *bytes;

	fuzz_archive(data, size);
	inputs_add(&l, path);
	for (i = 0; i < l.count && i < MEMBERS_MOST; i++)
		if (!l.list[i].error && !input_read(&l.list[i], &bytes, &n, &e)) {
			fuzz_check(bytes, n);
			free(bytes);
		}
	inputs_free(&l);
	close(fd);
}

/* ---- one mutant ------------------------------------------------------------------------ */

/* Fixed width: it is written over. */
static void at_stage(uint64_t number, const char *stage)
{
	char line[64];

	snprintf(line, sizeof(line), "%-20" PRIu64 " %-16s\n", number, stage);
	if (pwrite(run.state, line, strlen(line), 0) < 0)
		abort();
}

static void cpu_limit(void)
{
	struct rlimit limit;
	struct rusage used;

	getrlimit(RLIMIT_CPU, &limit);
	getrusage(RUSAGE_SELF, &used);
	limit.rlim_cur = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + SECONDS;
	setrlimit(RLIMIT_CPU, &limit);
}

static void mutant_run(uint64_t number)
{
	const struct seed_file *seed = &run.files[number % run.file_count];
	char path[96];
	struct mutant m;
	struct elf_file f;
	unsigned how, more;

	at_stage(number, "make");
	cpu_limit();
	mutant_make(number, &m);
	how = structure_below(&m, 256);
	more = structure_below(&m, 1u << 20);
	if (archive_is(m.bytes, m.size)) {
		at_stage(number, "archive");
		archive_all(m.bytes, m.size);
	} else {
		at_stage(number, "elf");
		run.opened += fuzz_open(&f, m.bytes, m.size);
		elf_close(&f);
		fuzz_elf(m.bytes, m.size);
		at_stage(number, "check");
		fuzz_check_how(m.bytes, m.size, how);
		at_stage(number, "inspect");
		fuzz_inspect_how(m.bytes, m.size, how);
		at_stage(number, "diff");
		fuzz_diff_with(seed->bytes, seed->size, m.bytes, m.size, how);
		at_stage(number, "undo");
		fuzz_undo(m.bytes, m.size);
		at_stage(number, "rewrite");
		rewrite_all(m.bytes, m.size, how | more << 8, number);
		if (!(more & 0x600)) {
			at_stage(number, "beside");
			rewrite_beside(m.bytes, m.size, how);
			sidecar_make(m.bytes, m.size, how);
		}
		if (!(more & 0x3000)) {
			at_stage(number, "objtool");
			fuzz_objtool_how(in_directory("objtool", path), m.bytes, m.size, how | (more >> 4 & 0xff00));
		}
		if (!(more & 0x4000)) {
			at_stage(number, "profile");
			fuzz_profile_how(m.bytes, m.size, more);
		}
		if (!(more & 0x78000)) {
			at_stage(number, "heap");
			fuzz_heap_how(m.bytes, m.size, more);
		}
	}
	free(m.bytes);
}

static void seeds_read(int n, char **paths)
{
	struct error e;
	int i;

	run.files = calloc((size_t)n + 1, sizeof(*run.files));
	if (!run.files)
		abort();
	for (i = 0; i < n; i++) {
		struct seed_file *f = &run.files[run.file_count++];

		f->path = paths[i];
		if (file_read(f->path, &f->bytes, &f->size, &e)) {
			fprintf(stderr, "%s: %s\n", f->path, e.text);
			exit(2);
		}
	}
}

static int write_one(uint64_t number, const char *out)
{
	struct mutant m;
	const char *kind = mutant_make(number, &m);

	file_write(out, m.bytes, m.size);
	printf("%s\n%s\n%s\n", run.files[number % run.file_count].path, kind, m.what);
	free(m.bytes);
	return 0;
}

static int run_all(uint64_t first, uint64_t count, const char *state)
{
	uint64_t i;
	char path[96];
	static const char *const made[] = {"in", "out", "again", "back", "objtool"};

	/* Beside STATE, which goes with what a mutant that ends the program leaves. */
	if (snprintf(run.directory, sizeof(run.directory), "%s-files", state) >= (int)sizeof(run.directory) ||
	    (mkdir(run.directory, 0700) && errno != EEXIST))
		abort();
	signal(SIGPIPE, SIG_IGN);
	for (i = first; i < first + count; i++) {
		mutant_run(i);
#ifdef BOUNDS_SANITIZED
		/* It looks at all memory: at the end, and after each where only one is asked for. */
		if ((count == 1 || i + 1 == first + count) && __lsan_do_recoverable_leak_check())
			return 3;
#endif
	}
	for (i = 0; i < sizeof(made) / sizeof(*made); i++)
		unlink(in_directory(made[i], path));
	rmdir(run.directory);
	printf("done %" PRIu64 " opened %" PRIu64 " again %" PRIu64 "\n", count, run.opened, run.again);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t first, count;
	unsigned i;

	for (i = 0; argc == 2 && !strcmp(argv[1], "kinds") && i < structure_kinds(); i++)
		printf("%s\n", structure_kind(i));
	if (argc == 2 && i)
		return 0;
	if (argc < 6) {
		fprintf(stderr, "usage: mutants SEED FIRST COUNT STATE FILE...\n");
		return 2;
	}
	setenv("ETCH_BOUNDS", "none", 1);
	run.seed = strtoull(argv[1], NULL, 0);
	first = strtoull(argv[2], NULL, 0);
	count = strtoull(argv[3], NULL, 0);
	seeds_read(argc - 5, argv + 5);
	if (!count)
		return write_one(first, argv[4]);
	run.state = open(argv[4], O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
	return run.state < 0 ? 2 : run_all(first, count, argv[4]);
}
