/* SPDX-License-Identifier: MIT */
/* The progress line (progress.h). */
#include "support/progress.h"
#include "support/plain.h"
#include "support/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define QUIET_SECONDS 2.0 /* work that ends before this shows no line */
#define STEP_SECONDS  0.1 /* time between two updates of the line */

static double start, last;
static bool shown;
static int terminal = -1; /* not determined yet */

void progress_note(const char *what, size_t done, size_t total, const char *unit)
{
	char name[64];
	double t;

	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	if (!terminal)
		return;
	t = clock_seconds();
	if (start == 0)
		start = last = t;
	if (t - start < QUIET_SECONDS || t - last < STEP_SECONDS)
		return;
	last = t;
	shown = true;
	snprintf(name, sizeof(name), "%.60s", what);
	plain(name);
	fprintf(stderr, "\r\033[Ketch: %s: %zu of %zu %s", name, done, total, unit);
	fflush(stderr);
}

void progress_step(const char *what, size_t done, size_t total)
{
	if (!(done & 255) || start == 0)
		progress_note(what, done, total, "functions");
}

void progress_off(void) { terminal = 0; }

void progress_end(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
	start = 0;
}
