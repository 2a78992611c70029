/* SPDX-License-Identifier: MIT */
/* What the parts of the SVG flame graph share: which calls are drawn, and where (write_svg.c, svg_head.c, svg_data.c).
 */
#ifndef PROFILE_SVG_FLAME_H
#define PROFILE_SVG_FLAME_H

#include "profile/writers.h"

#define FLAME_WIDTH      1400.0 /* px */
#define FLAME_EDGE       10.0
#define FLAME_LEAST      0.08 /* narrower frames are left out */
#define FLAME_LEAST_EVER 1.0  /* ... also at each moment of the time line */
#define FLAME_ROW        17   /* height of a row, px */
#define FLAME_CHARACTER  7    /* width of a letter, px */
#define FLAME_HEAD       82   /* height of the head, px */
#define FLAME_TIME       56   /* height of the time line, px */

struct flame_box {
	uint32_t call, caller;
	const char *name;
	uint64_t rank;   /* of a process: its weight; 0: by name */
	double x, width; /* px, from the left edge of the frames */
	double ever;     /* the greatest width at a moment of the time line, px */
	unsigned row;
	uint32_t number; /* of the frame in the file, from 1 on; 0: it is not drawn */
};

struct flame {
	const struct profile *p;
	const char *title;
	struct flame_box *boxes; /* by (caller, name) */
	size_t count;
	size_t *first;      /* by call: its first callee in `boxes` */
	uint32_t *frame_of; /* by call: the number of the frame that it is drawn in, which may be a caller's; 0: "all" */
	uint32_t frames;    /* in the file */
	uint64_t *self, *total;
	double scale;
	unsigned rows;
	bool time; /* there is a time line */
	FILE *out;
};

/* XML text: what is not allowed in it, and what a reader could take for something else, is '?'. */
void xml_put(const char *text, FILE *out);
/* "226 samples" */
void weight_put(const struct profile *p, uint64_t weight, FILE *out);
/* The colour of a call. */
void colour_put(const struct flame *f, uint32_t call);
/* Where the first row is, px. */
static inline double flame_top(const struct flame *f) { return FLAME_HEAD + (f->time ? FLAME_TIME + 6 : 0); }

/* The head: what was measured, how, when, and what the colours mean. */
void svg_head_put(const struct flame *f);
/* The element that the script reads (flame.js). False: out of memory. */
bool svg_data_put(const struct flame *f);

#endif
