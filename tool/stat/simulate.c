/* SPDX-License-Identifier: MIT */
/*
 * Runs commands under callgrind, which simulates the same caches and branch predictor as cachegrind. Callgrind is used
 * since it can separate a forked child's counts from its parent's: in both tools the child starts with a copy of the
 * parent's counts, but callgrind can dump and reset them before a given function such as fork().
 */
#include "stat/simulate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/run.h"

enum event { IR, DR, DW, I1MR, D1MR, D1MW, ILMR, DLMR, DLMW, BC, BCM, BI, BIM, EVENTS };

static const char *const event_names[EVENTS] = {"Ir",   "Dr",   "Dw", "I1mr", "D1mr", "D1mw", "ILmr",
                                                "DLmr", "DLmw", "Bc", "Bcm",  "Bi",   "Bim"};

/* Each row is a sum of callgrind's events. */
static const struct {
	const char *key, *title;
	uint32_t events;
} sums[] = {
	{"instructions", "instructions", 1u << IR},
	{"data-accesses", "data accesses", 1u << DR | 1u << DW},
	{"l1i-misses", "L1 instruction misses", 1u << I1MR},
	{"l1d-misses", "L1 data misses", 1u << D1MR | 1u << D1MW},
	{"cache-references", "cache references", 1u << I1MR | 1u << D1MR | 1u << D1MW},
	{"cache-misses", "cache misses", 1u << ILMR | 1u << DLMR | 1u << DLMW},
	{"branches", "branches", 1u << BC | 1u << BI},
	{"branch-misses", "branch misses", 1u << BCM | 1u << BIM},
};
#define SUMS (sizeof(sums) / sizeof(sums[0]))

#define PARTS_MAX 65536 /* profiles of one process; each is a file */

/* One profile: the counts of a process since its start, or since its previous profile. */
struct part {
	uint64_t counts[EVENTS];
	unsigned long number; /* its number, from 1 */
};

size_t simulation_plan(struct row *rows)
{
	size_t i;

	for (i = 0; i < SUMS; i++) {
		memset(&rows[i], 0, sizeof(rows[i]));
		rows[i].key = sums[i].key;
		rows[i].title = sums[i].title;
		rows[i].source = SOURCE_CALLGRIND;
	}
	return SUMS;
}

int simulation_begin(struct simulation *s, const char *only, long files, struct error *e)
{
	const char *tmp = getenv("TMPDIR");

	memset(s, 0, sizeof(*s));
	if (command_check("valgrind", e))
		return error_set(e, "--simulate needs valgrind, which is not installed (Debian package: valgrind)");
	if (snprintf(s->directory, sizeof(s->directory), "%s/etch-stat-XXXXXX", tmp && *tmp ? tmp : "/tmp") >=
	    (int)sizeof(s->directory) - 32) {
		s->directory[0] = 0;
		return error_set(e, "TMPDIR is too long");
	}
	if (!mkdtemp(s->directory)) {
		error_set(e, "%s: cannot make a directory: %s", s->directory, strerror(errno));
		s->directory[0] = 0;
		return -1;
	}
	s->only = only;
	s->files = files;
	if ((only || files) && starter_begin(s, e)) {
		simulation_end(s);
		return -1;
	}
	return 0;
}

/* Returns "--option=DIRECTORY/name.%p", with each % in the directory doubled for valgrind. */
static char *file_option(const struct simulation *s, const char *option, const char *name)
{
	char *out = malloc(2 * sizeof(s->directory) + 64), *p = out;
	const char *d;

	if (!out)
		return NULL;
	p += sprintf(p, "%s=", option);
	for (d = s->directory; *d; d++) {
		if (*d == '%')
			*p++ = '%';
		*p++ = *d;
	}
	sprintf(p, "/%s.%%p", name);
	return out;
}

char **simulation_options(const struct simulation *s)
{
	static const char *const options[] = {
		"valgrind",       "--tool=callgrind",    "--trace-children=yes",
		"--vgdb=no",      "--cache-sim=yes",     "--branch-sim=yes",
		"--dump-line=no", "--dump-before=fork*", "--dump-before=vfork*",
	};
	enum { OPTIONS = sizeof(options) / sizeof(options[0]) };
	static char *list[OPTIONS + 4]; /* made once: all runs have the same options */
	size_t i;

	if (list[0])
		return list;
	for (i = 0; i < OPTIONS; i++)
		list[i] = (char *)options[i];
	list[i++] = file_option(s, "--callgrind-out-file", "out");
	list[i++] = file_option(s, "--log-file", "log");
	list[i] = (char *)"--";
	if (list[i - 1] && list[i - 2])
		return list;
	list[0] = NULL;
	return NULL;
}

/* With --only the command is run as it is, except that each word that names the program with a directory is replaced by
 * the path of the script that starts valgrind. */
static void starter_put(const struct simulation *s, char **list)
{
	for (; *list; list++)
		if (strchr(s->only, '/') && !strcmp(*list, s->only))
			*list = s->starter;
}

char **simulation_command(struct simulation *s, char **argv)
{
	char **options = s->starter ? NULL : simulation_options(s), **list;
	size_t n = 0, before = 0;

	if (!s->starter && !options)
		return NULL;
	while (argv[n])
		n++;
	while (options && options[before])
		before++;
	list = calloc(before + n + 2, sizeof(*list));
	if (!list)
		return NULL;
	if (options)
		memcpy(list, options, before * sizeof(*list));
	else if (!s->only)
		list[before++] = s->starter;
	memcpy(list + before, argv, n * sizeof(*list));
	if (s->only)
		starter_put(s, list);
	return list;
}

/* ---- the files of a run ---------------------------------------------------------- */

static FILE *file_open(const struct simulation *s, const char *name)
{
	char path[sizeof(s->directory) + 300];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", s->directory, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? NULL : fdopen(fd, "r");
}

/* Parses the rest of "events: Ir Dr ..." and sets at[] to the column of each event, or to -1 for an event that is not
 * listed. */
static void events_parse(char *line, int *at)
{
	char *word, *rest = line;
	int i, n = 0;

	for (i = 0; i < EVENTS; i++)
		at[i] = -1;
	for (; (word = strtok_r(rest, " \n", &rest)); n++)
		for (i = 0; i < EVENTS; i++)
			if (!strcmp(word, event_names[i]))
				at[i] = n;
}

/* Parses the rest of "totals: 12 3"; the file omits trailing zeros. */
static void totals_parse(const char *line, const int *at, uint64_t *counts)
{
	char *end;
	int i, n;

	memset(counts, 0, EVENTS * sizeof(*counts));
	for (n = 0;; n++, line = end) {
		uint64_t v = strtoull(line, &end, 10);

		if (end == line)
			break;
		for (i = 0; i < EVENTS; i++)
			if (at[i] == n)
				counts[i] = v;
	}
}

/* Parses the rest of "desc: LL cache: 8388608 B, 64 B, 16-way associative". */
static void cache_note(struct simulation *s, const char *line)
{
	size_t at = strlen(s->caches);
	const char *colon = strstr(line, " cache: ");

	if (colon)
		snprintf(s->caches + at, sizeof(s->caches) - at, "%s%.*s %.*s", at ? "; " : "", (int)(colon - line), line,
		         (int)strcspn(colon + 8, "\n"), colon + 8);
}

/* Reads a profile. Returns false if it is incomplete because its process was killed. */
static bool part_read(struct simulation *s, const char *name, bool note, struct part *out)
{
	FILE *f = file_open(s, name);
	char *line = NULL;
	size_t capacity = 0;
	int at[EVENTS] = {0};
	bool whole = false, events = false;

	if (!f)
		return false;
	memset(out, 0, sizeof(*out));
	while (getline(&line, &capacity, f) > 0) {
		if (!strncmp(line, "part: ", 6))
			out->number = strtoul(line + 6, NULL, 10);
		else if (note && !strncmp(line, "desc: ", 6))
			cache_note(s, line + 6);
		else if (!strncmp(line, "events: ", 8)) {
			events_parse(line + 8, at);
			events = true;
		} else if (events && !strncmp(line, "totals: ", 8)) {
			totals_parse(line + 8, at, out->counts);
			whole = true;
		}
	}
	free(line);
	fclose(f);
	return whole;
}

static void counts_add(uint64_t *to, const uint64_t *from)
{
	int i;

	for (i = 0; i < EVENTS; i++)
		to[i] += from[i];
}

/*
 * Do a forked process's counts include its parent's? They do if its log reports as many collected instructions as its
 * profiles hold; if callgrind has reset the counts at fork(), the log reports more. (Only the log of a process that has
 * called exec has the line about control.)
 */
static bool is_doubled(const struct simulation *s, const char *pid, uint64_t instructions)
{
	char name[64], *line = NULL, *at;
	bool executed = false, same = false;
	size_t capacity = 0;
	FILE *f;

	snprintf(name, sizeof(name), "log.%s", pid);
	f = file_open(s, name);
	if (!f)
		return false;
	while (getline(&line, &capacity, f) > 0) {
		executed |= strstr(line, "For interactive control") != NULL;
		at = strstr(line, "== Collected : ");
		if (at)
			same = strtoull(at + 15, NULL, 10) == instructions;
	}
	free(line);
	fclose(f);
	return !executed && same;
}

/* Sums all profiles of one process: the last one, out.PID, and those that were written before each fork, out.PID.N. If
 * the process has called exec, profiles of its previous program may remain, but those that have not been overwritten
 * have numbers above that of the last profile. */
static bool process_read(struct simulation *s, const char *pid, uint64_t *counts)
{
	uint64_t mine[EVENTS] = {0};
	struct part last, part;
	unsigned long i;
	char name[64];

	snprintf(name, sizeof(name), "out.%s", pid);
	if (!part_read(s, name, !s->caches[0], &last))
		return false;
	if (last.number > PARTS_MAX)
		return false;
	counts_add(mine, last.counts);
	for (i = 1; i < last.number; i++) {
		snprintf(name, sizeof(name), "out.%s.%lu", pid, i);
		if (part_read(s, name, false, &part))
			counts_add(mine, part.counts);
	}
	s->doubled += is_doubled(s, pid, mine[IR]);
	counts_add(counts, mine);
	return true;
}

/* Reports why valgrind did not run the command: the last non-empty line of its log says it. */
static int log_error(const struct simulation *s, pid_t pid, struct error *e)
{
	char name[64], last[200] = "", *line = NULL;
	size_t capacity = 0;
	FILE *f;

	snprintf(name, sizeof(name), "log.%d", (int)pid);
	f = file_open(s, name);
	while (f && getline(&line, &capacity, f) > 0) {
		char *text = strstr(line, "== ");

		text = text ? text + 3 : line;
		text[strcspn(text, "\n")] = 0;
		if (strlen(text) > 3)
			snprintf(last, sizeof(last), "%s", text);
	}
	free(line);
	if (f)
		fclose(f);
	return last[0] ? error_set(e, "left no counts; the last message of valgrind: %s", last)
	               : error_set(e, "left no counts and no message of valgrind");
}

static void files_remove(const struct simulation *s)
{
	char path[sizeof(s->directory) + 300];
	struct dirent *d;
	DIR *dir = opendir(s->directory);

	while (dir && (d = readdir(dir))) {
		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", s->directory, d->d_name);
		unlink(path);
	}
	if (dir)
		closedir(dir);
}

int simulation_read(struct simulation *s, pid_t pid, struct reading *out, struct error *e)
{
	uint64_t counts[EVENTS] = {0};
	struct dirent *d;
	DIR *dir = opendir(s->directory);
	bool self = false;
	size_t i, j;

	memset(out, 0, sizeof(*out));
	if (!dir)
		return error_set(e, "%s: %s", s->directory, strerror(errno));
	while ((d = readdir(dir))) {
		if (strncmp(d->d_name, "log.", 4))
			continue;
		if (!process_read(s, d->d_name + 4, counts))
			s->lost++;
		else if (s->only || atol(d->d_name + 4) == pid)
			self = true;
	}
	closedir(dir);
	if (!self) {
		if (s->only)
			error_set(e,
			          "no process of %.200s has left counts: it must be found by PATH or be a word of the command, and "
			          "it must "
			          "end by itself before the command ends",
			          s->only);
		else
			log_error(s, pid, e);
		files_remove(s);
		return -1;
	}
	files_remove(s);
	for (i = 0; i < SUMS; i++) {
		out->have[i] = true;
		out->share[i] = 1;
		for (j = 0; j < EVENTS; j++)
			if (sums[i].events >> j & 1)
				out->value[i] += (double)counts[j];
	}
	return 0;
}

void simulation_end(struct simulation *s)
{
	if (!s->directory[0])
		return;
	starter_end(s);
	files_remove(s);
	rmdir(s->directory);
}
