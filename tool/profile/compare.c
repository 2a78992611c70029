/* SPDX-License-Identifier: MIT */
/* Compares profiles (compare.h). */
#include "profile/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/writers.h"
#include "report/text.h"
#include "stat/samples.h"

#define SCALE 1e9 /* the weight of the whole picture */
/* Quantile of the normal distribution for SHIFT_ERROR, two-sided. */
#define NORMAL_TAIL 2.5758293035489004

/* The shares of things (calls or functions) in each run: share[thing * runs + run]. */
struct shares {
	double *share;
	size_t things, runs;
};

/* The old and the new side of a comparison: the number of runs, and the number of samples of all runs of the side,
 * which is 0 if the numbers of the folded stacks are not those of samples. */
struct sides {
	size_t olds, news;
	double old_samples, new_samples;
};

static bool shares_make(struct shares *s, size_t things, size_t runs)
{
	*s = (struct shares){.things = things, .runs = runs, .share = calloc(things * runs + 1, sizeof(*s->share))};
	return s->share;
}

static double mean(const double *list, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += list[i];
	return sum / (double)count;
}

static void range_of(const double *list, size_t count, double *least, double *most)
{
	*least = *most = list[0];
	for (size_t i = 1; i < count; i++) {
		*least = list[i] < *least ? list[i] : *least;
		*most = list[i] > *most ? list[i] : *most;
	}
}

/* Do the shares in the old runs and those in the new runs overlap, as ranges? */
static bool runs_overlap(const double *share, const struct sides *s)
{
	double old_least, old_most, new_least, new_most;

	range_of(share, s->olds, &old_least, &old_most);
	range_of(share + s->olds, s->news, &new_least, &new_most);
	return old_least <= new_most && new_least <= old_most;
}

/* Could chance alone make such a difference of shares with so many samples? */
static bool is_chance(double was, double is, const struct sides *s)
{
	double all = s->old_samples + s->new_samples, share, error;

	if (!(s->old_samples > 0) || !(s->new_samples > 0))
		return false;
	share = (was * s->old_samples + is * s->new_samples) / all;
	error = sqrt(share * (1 - share) * (1 / s->old_samples + 1 / s->new_samples));
	return fabs(is - was) <= NORMAL_TAIL * error;
}

/* Is the difference within the noise? */
static bool is_noise(const double *share, const struct sides *s)
{
	struct samples a = {(double *)(uintptr_t)share, s->olds, s->olds};
	struct samples b = {(double *)(uintptr_t)(share + s->olds), s->news, s->news};
	double was = mean(share, s->olds), is = mean(share + s->olds, s->news);
	struct shift shift;

	if (was == is)
		return true;
	if (samples_shift(&a, &b, &shift))
		return shift.low <= 0 && shift.high >= 0;
	return is_chance(was, is, s) || (s->olds > 1 && s->news > 1 && runs_overlap(share, s));
}

/* Computes the calls' shares with everything that they called, and by themselves. */
static bool calls_share(const struct profile *p, const double *whole, struct shares *total, struct shares *self)
{
	size_t runs = total->runs;

	for (size_t i = 0; i < p->sample_count; i++) {
		const struct profile_sample *s = &p->samples[i];
		size_t run = (size_t)s->pid - 1;
		double share = whole[run] > 0 ? (double)s->weight / whole[run] : 0;

		self->share[p->call_of[s->node] * runs + run] += share;
		total->share[p->call_of[s->node] * runs + run] += share;
	}
	for (size_t i = p->calls.count; i-- > 1;)
		for (size_t run = 0; run < runs; run++)
			total->share[key_caller(&p->calls.list[i]) * runs + run] += total->share[i * runs + run];
	return true;
}

/* Computes the whole weight of each run, and the numbers of samples of both sides. */
static double *wholes(const struct profile *p, struct sides *s, bool sampled)
{
	double *whole = calloc(s->olds + s->news + 1, sizeof(*whole));

	for (size_t i = 0; whole && i < p->sample_count; i++)
		whole[p->samples[i].pid - 1] += (double)p->samples[i].weight;
	for (size_t run = 0; whole && sampled && run < s->olds + s->news; run++)
		*(run < s->olds ? &s->old_samples : &s->new_samples) += whole[run];
	return whole;
}

static bool diff_fill(struct profile *p, const struct shares *total, const struct shares *self, const struct sides *s)
{
	struct profile_diff *d = p->diff;

	for (size_t i = 0; i < p->calls.count; i++) {
		const double *share = &total->share[i * total->runs];
		double change;

		d->was[i] = mean(share, s->olds);
		d->is[i] = mean(share + s->olds, s->news);
		d->noise[i] = is_noise(share, s);
		d->old_self[i] = (uint64_t)llround(SCALE * mean(&self->share[i * self->runs], s->olds));
		change = d->noise[i] || !i ? 0 : fabs(d->is[i] - d->was[i]);
		d->most = change > d->most ? change : d->most;
	}
	return true;
}

/* Computes the functions' own shares, for the table. */
static bool functions_fill(struct profile *p, const struct shares *self, const struct sides *s)
{
	struct profile_diff *d = p->diff;
	struct shares f;

	d->function_was = calloc(p->functions.count + 1, sizeof(*d->function_was));
	d->function_is = calloc(p->functions.count + 1, sizeof(*d->function_is));
	d->function_noise = calloc(p->functions.count + 1, sizeof(*d->function_noise));
	if (!d->function_was || !d->function_is || !d->function_noise || !shares_make(&f, p->functions.count, self->runs))
		return false;
	for (size_t i = 1; i < p->calls.count; i++)
		for (size_t run = 0; run < f.runs; run++)
			f.share[p->calls.list[i].b * f.runs + run] += self->share[i * f.runs + run];
	for (size_t i = 0; i < p->functions.count; i++) {
		const double *share = &f.share[i * f.runs];

		d->function_was[i] = mean(share, s->olds);
		d->function_is[i] = mean(share + s->olds, s->news);
		d->function_noise[i] = is_noise(share, s);
	}
	free(f.share);
	return true;
}

/* Sets the samples' weights to those of the picture. */
static void weights_set(struct profile *p, const double *whole, const struct sides *s)
{
	p->weight = 0;
	for (size_t i = 0; i < p->sample_count; i++) {
		size_t run = (size_t)p->samples[i].pid - 1;
		double side = (double)(run < s->olds ? s->olds : s->news);

		p->samples[i].weight =
			whole[run] > 0 ? (uint64_t)llround(SCALE / 2 / side * (double)p->samples[i].weight / whole[run]) : 0;
		p->weight += p->samples[i].weight;
	}
}

bool profile_compare(struct profile *p, size_t olds, size_t news, bool sampled)
{
	struct sides s = {.olds = olds, .news = news};
	struct shares total = {0}, self = {0};
	double *whole = wholes(p, &s, sampled);
	bool good = whole && (p->diff = calloc(1, sizeof(*p->diff))) != NULL;

	if (good) {
		p->diff->was = calloc(p->calls.count + 1, sizeof(*p->diff->was));
		p->diff->is = calloc(p->calls.count + 1, sizeof(*p->diff->is));
		p->diff->noise = calloc(p->calls.count + 1, sizeof(*p->diff->noise));
		p->diff->old_self = calloc(p->calls.count + 1, sizeof(*p->diff->old_self));
		p->diff->olds = olds;
		p->diff->news = news;
		good = p->diff->was && p->diff->is && p->diff->noise && p->diff->old_self;
	}
	good = good && shares_make(&total, p->calls.count, olds + news) &&
	       shares_make(&self, p->calls.count, olds + news) && calls_share(p, whole, &total, &self) &&
	       diff_fill(p, &total, &self, &s) && functions_fill(p, &self, &s);
	for (size_t run = 0; good && run < olds + news; run++)
		*(run < olds ? &p->diff->old_sum : &p->diff->new_sum) += whole[run] / (double)(run < olds ? olds : news);
	if (good)
		weights_set(p, whole, &s);
	free(total.share);
	free(self.share);
	free(whole);
	return good;
}

/* ---- the table ----------------------------------------------------------------------------------- */

struct change_row {
	double change;
	uint32_t function;
};

static int change_order(const void *a, const void *b)
{
	const struct change_row *x = a, *y = b;

	if (fabs(x->change) != fabs(y->change))
		return fabs(x->change) < fabs(y->change) ? 1 : -1;
	return x->function < y->function ? -1 : x->function > y->function;
}

static const char *runs_text(size_t runs) { return runs == 1 ? "run" : "runs"; }

static void sums_put(const struct profile *p, size_t hidden, FILE *out)
{
	static const char *const units[] = {[UNIT_TIME] = "samples", [UNIT_WAIT] = "us", [UNIT_BYTES] = "bytes"};
	const struct profile_diff *d = p->diff;

	fprintf(out, "old: %zu %s, %.0f %s; new: %zu %s, %.0f %s", d->olds, runs_text(d->olds),
	        d->old_sum / (double)p->period, units[p->unit], d->news, runs_text(d->news), d->new_sum / (double)p->period,
	        units[p->unit]);
	if (d->old_sum > 0)
		fprintf(out, " (%+.1f%%)", 100 * (d->new_sum - d->old_sum) / d->old_sum);
	fputs(d->olds > 1 || d->news > 1 ? " a run\n" : "\n", out);
	if (hidden)
		fprintf(out, "%zu function%s changed within the noise%s\n", hidden, hidden == 1 ? " has" : "s have",
		        d->olds < 5 || d->news < 5 ? " (five runs of each tell more: --diff OLD... -- NEW...)" : "");
}

bool compare_top(const struct profile *p, size_t most, bool color, FILE *out)
{
	const struct profile_diff *d = p->diff;
	struct change_row *rows = calloc(p->functions.count + 1, sizeof(*rows));
	size_t count = 0, hidden = 0;

	if (!rows)
		return false;
	for (size_t i = 0; i < p->functions.count; i++) {
		double change = d->function_is[i] - d->function_was[i];

		if (change == 0)
			continue;
		if (d->function_noise[i])
			hidden++;
		else
			rows[count++] = (struct change_row){change, (uint32_t)i};
	}
	qsort(rows, count, sizeof(*rows), change_order);
	fputs("    old      new   change  function, by itself\n", out);
	for (size_t i = 0; i < count && i < most; i++) {
		uint32_t f = rows[i].function;
		const char *hue = rows[i].change > 0 ? "\033[31m" : "\033[34m";

		fprintf(out, "%6.2f%%  %6.2f%%  %s%+6.2f%s  ", 100 * d->function_was[f], 100 * d->function_is[f],
		        color ? hue : "", 100 * rows[i].change, color ? "\033[0m" : "");
		text_clean(out, p->names.list[function_name(p, f)]);
		putc('\n', out);
	}
	if (!count)
		fputs("no function has changed beyond the noise\n", out);
	sums_put(p, hidden, out);
	free(rows);
	return true;
}
