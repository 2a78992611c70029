/* SPDX-License-Identifier: MIT */
/* Runs a command with the recorder preloaded (heap_session.h). */
#include "heap/heap_session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "heap/heap_time.h"
#include "heap/process_watch.h"
#include "support/run.h"
#include "support/progress.h"
#include "support/memory.h"

#define RECORDER "libetch-heap.so"
#define TICK_NS  10000000L
/* New recordings are looked for at each of the first ticks, and then at every TICKS-th one. */
#define TICKS     10u
#define SHM_LEAST (256ull << 20) /* bytes that must be free in /dev/shm for it to be the default */

/* A recording that has been seen. */
struct seen {
	char *name; /* "PID.N" */
	long pid;
	uint64_t modules; /* how many of the recording's modules have been opened */
	bool done;
	struct heap_track track;
};

struct gathering {
	struct heap_profile *h;
	char path[PATH_MAX];
	int directory;
	struct seen *list;
	size_t count, capacity;
	uint64_t running;
	struct process_watch watch;
	struct heap_time time;
	struct heap_track only; /* the track of the recording that was taken last */
	unsigned ticks;
};

/* ---- the recorder's file -------------------------------------------------------- */

/* Finds the library, beside the program or where it is installed. */
static int recorder_find(char out[PATH_MAX], struct error *e)
{
	static const char *const places[] = {"", "../lib/etch/", "../lib/x86_64-linux-gnu/etch/", "../lib64/etch/"};
	char self[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n <= 0)
		return error_set(e, "/proc/self/exe: %s", strerror(errno));
	self[n] = 0;
	slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < sizeof(places) / sizeof(*places); i++) {
		snprintf(path, sizeof(path), "%.*s/%s" RECORDER, (int)(slash - self), self, places[i]);
		if (realpath(path, out))
			return strpbrk(out, " :")
			           ? error_set(e, "%s: a library whose path has a space or a colon cannot be preloaded", out)
			           : 0;
	}
	return error_set(e, RECORDER " is neither beside etch nor in ../lib/etch: is etch installed as a whole?");
}

/* ---- the directory ---------------------------------------------------------------- */

static const char *default_directory(void)
{
	const char *temporary = getenv("TMPDIR");
	struct statvfs st;

	if (!access("/dev/shm", W_OK) && !statvfs("/dev/shm", &st) && (uint64_t)st.f_bavail * st.f_frsize >= SHM_LEAST)
		return "/dev/shm";
	return temporary && *temporary == '/' ? temporary : "/tmp";
}

static int directory_make(struct gathering *g, const char *where, struct error *e)
{
	char full[PATH_MAX];

	if (!where)
		where = default_directory();
	if (!realpath(where, full) || strlen(full) > PATH_MAX - 128)
		return error_set(e, "%s: %s", where, strerror(errno));
	snprintf(g->path, sizeof(g->path), "%.*s/etch-heap-XXXXXX", PATH_MAX - 32, full);
	if (!mkdtemp(g->path) || (g->directory = open(g->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return error_set(e, "%s: %s", full, strerror(errno));
	return 0;
}

static void directory_remove(struct gathering *g)
{
	DIR *d = fdopendir(g->directory);
	struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
	rmdir(g->path);
	for (size_t i = 0; i < g->count; i++) {
		free(g->list[i].name);
		heap_track_free(&g->list[i].track);
	}
	free(g->list);
}

static int environment_set(const struct gathering *g, const struct heap_options *o, struct error *e)
{
	const char *before = getenv("LD_PRELOAD");
	char library[PATH_MAX], value[PATH_MAX + 64], *preload = NULL;
	int err;

	if (recorder_find(library, e))
		return -1;
	snprintf(value, sizeof(value), "%llu:%ld:%s", (unsigned long long)o->sample, o->follow ? 0 : (long)getpid(),
	         g->path);
	if (asprintf(&preload, "%s%s%s", library, before && *before ? ":" : "", before ? before : "") < 0)
		return error_set(e, NO_MEMORY);
	err = setenv("LD_PRELOAD", preload, 1) || setenv(HEAP_VARIABLE, value, 1) ||
	      (o->frame_pointers && setenv("ETCH_UNWIND_FRAME_POINTERS", "1", 1));
	free(preload);
	return err ? error_set(e, NO_MEMORY) : 0;
}

/* ---- the recordings ------------------------------------------------------------------ */

static int name_order(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return strverscmp(x->name, y->name);
}

static void names_read(struct gathering *g)
{
	int fd = openat(g->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	size_t known = g->count;

	while (d && (entry = readdir(d))) {
		struct seen s = {.name = entry->d_name, .pid = atol(entry->d_name)};

		if (s.pid <= 0 || (known && bsearch(&s, g->list, known, sizeof(s), name_order)))
			continue;
		s.name = strdup(entry->d_name);
		if (!s.name || !mem_reserve_try(&g->list, &g->capacity, g->count, sizeof(*g->list))) {
			free(s.name);
			g->h->profile->no_memory = true;
			break;
		}
		g->list[g->count++] = s;
	}
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	if (g->count)
		qsort(g->list, g->count, sizeof(*g->list), name_order);
}

/* Adds a recording to the profile, and removes its file. */
static void recording_take(struct gathering *g, struct seen *s)
{
	struct heap_image im;
	struct error e;

	s->done = true;
	im = (struct heap_image){0};
	if (heap_refusal_read(g->directory, s->name, &e) || heap_image_open(&im, g->directory, s->name, &e)) {
		if (!g->h->lost_files++)
			g->h->lost_file = e;
		process_watch_recorded(&g->watch, (pid_t)s->pid, NULL);
	} else {
		uint32_t *node = calloc((size_t)im.head.leaf_count + 1, sizeof(*node));

		heap_track_read(&s->track, g->directory, s->name, heap_time_now(&g->time));
		g->only = s->track;
		g->only.views = NULL;
		if (node && heap_profile_add(g->h, &im, node))
			heap_track_take(&g->time, &s->track, node, (size_t)im.head.leaf_count);
		else
			g->h->profile->no_memory = true;
		free(node);
	}
	heap_image_free(&im);
	unlinkat(g->directory, s->name, 0);
}

static void modules_take(struct gathering *g, struct seen *s)
{
	struct heap_image im;
	struct error e;

	if (!heap_image_modules(&im, g->directory, s->name, &e) && im.module_count > s->modules) {
		heap_files_open(g->h, &im);
		s->modules = im.module_count;
	}
	heap_image_free(&im);
}

/* Has the process ended? That is known only for PIDs of etch's own namespace, not for those of a container's. */
static bool is_gone(const struct gathering *g, const struct seen *s)
{
	struct heap_image im;
	struct error e;
	char own[64] = "";
	bool same;

	if (!kill((pid_t)s->pid, 0) || errno != ESRCH || readlink("/proc/self/ns/pid", own, sizeof(own) - 1) <= 0)
		return false;
	same = !heap_image_modules(&im, g->directory, s->name, &e) && !strncmp(im.head.space, own, sizeof(im.head.space));
	heap_image_free(&im);
	return same;
}

/* Reads how much is live, and at longer intervals which blocks. */
static void time_look(struct gathering *g)
{
	uint64_t now = heap_time_now(&g->time), bytes = 0;
	uint32_t moment;

	for (size_t i = 0; i < g->count; i++) {
		struct seen *s = &g->list[i];

		if (s->done)
			continue;
		heap_track_read(&s->track, g->directory, s->name, now);
		bytes += s->track.live;
	}
	heap_time_add(&g->time, now, bytes);
	moment = heap_time_moment(&g->time, now);
	if (moment == UINT32_MAX)
		return;
	for (size_t i = 0; i < g->count; i++)
		if (!g->list[i].done)
			heap_track_view(&g->time, &g->list[i].track, g->directory, g->list[i].name, moment);
	heap_moment_end(&g->time, moment, now, bytes);
	if (heap_time_thin(&g->time))
		for (size_t i = 0; i < g->count; i++)
			heap_track_thin(&g->time, &g->list[i].track);
}

/* Opens the files of modules and takes the recordings of processes that are gone, while the command runs. */
static void look(void *context)
{
	struct gathering *g = context;

	process_watch_read(&g->watch, false);
	if (g->ticks++ > TICKS && g->ticks % TICKS) {
		time_look(g);
		return;
	}
	names_read(g);
	for (size_t i = 0; i < g->count; i++) {
		struct seen *s = &g->list[i];
		/* Did the process go on with another program by exec(2)? */
		bool followed = i + 1 < g->count && g->list[i + 1].pid == s->pid;

		if (s->done)
			continue;
		modules_take(g, s);
		if (!followed && is_gone(g, s))
			recording_take(g, s);
	}
	time_look(g);
	if (g->h->processes)
		progress_note("heap", g->h->processes, g->count, "processes");
}

static void last_look(struct gathering *g)
{
	names_read(g);
	for (size_t i = 0; i < g->count; i++) {
		if (g->list[i].done)
			continue;
		if (!kill((pid_t)g->list[i].pid, 0) && (i + 1 == g->count || g->list[i + 1].pid != g->list[i].pid))
			g->running++;
		recording_take(g, &g->list[i]);
	}
	progress_end();
}

/* Counts the programs that have no recording. For a process in another PID namespace it is not known which PID it has
 * in etch's namespace. */
static void unrecorded_count(struct gathering *g)
{
	struct heap_profile *h = g->h;

	for (size_t i = 1; i < h->profile->processes.image_count; i++) {
		const struct process_image *image = &h->profile->processes.images[i];

		process_watch_recorded(&g->watch, image->pid, image->name);
	}
	for (size_t i = 0; i < g->watch.count; i++) {
		const struct executed *e = &g->watch.list[i];
		size_t used = strlen(h->unrecorded_names);

		if (e->recorded)
			continue;
		h->unrecorded++;
		if (!strstr(h->unrecorded_names, e->name) && used + strlen(e->name) + 2 < sizeof(h->unrecorded_names))
			snprintf(h->unrecorded_names + used, sizeof(h->unrecorded_names) - used, "%s\n", e->name);
	}
}

static int command_run(const struct heap_options *o, struct gathering *g, struct heap_end *end, struct error *e)
{
	struct run_options how = {
		.cpu = -1, .out = o->to_stderr ? STDERR_FILENO : -1, .input_keep = true, .tick_ns = TICK_NS};
	struct run_end ended = {0};
	struct run run;

	if (environment_set(g, o, e) || run_start(&run, o->command, &how, e))
		return -1;
	if (o->follow)
		process_watch_begin(&g->watch, run.pid);
	if (run_go(&run, &ended, look, g, e))
		return -1;
	process_watch_read(&g->watch, true);
	end->status = run_exit_status(ended.status);
	end->signal = WIFSIGNALED(ended.status) ? WTERMSIG(ended.status) : 0;
	last_look(g);
	unrecorded_count(g);
	if (!heap_time_end(&g->time, g->h, g->h->processes == 1 ? &g->only : NULL))
		g->h->profile->no_memory = true;
	g->h->profile->duration = heap_time_now(&g->time);
	end->running = g->running;
	return 0;
}

int heap_run(const struct heap_options *o, struct heap_profile *h, struct heap_end *end, struct error *e)
{
	struct gathering g = {.h = h, .directory = -1};
	int err;

	if (!heap_time_begin(&g.time))
		return error_set(e, NO_MEMORY);
	h->profile->heap = g.time.out;
	h->profile->frame_pointers = o->frame_pointers;
	h->profile->started = time(NULL);
	if (directory_make(&g, o->directory, e))
		return -1;
	runs_begin();
	err = command_run(o, &g, end, e);
	end->stopped = runs_stopped();
	runs_end();
	process_watch_end(&g.watch);
	directory_remove(&g);
	for (size_t i = 0; !err && i < h->profile->binaries.count; i++)
		binary_prepare(h->profile->binaries.list[i]);
	return err;
}
