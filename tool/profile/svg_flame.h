/* SPDX-License-Identifier: MIT */
/* Shared by the parts of the SVG flame graph (write_svg.c, svg_head.c, svg_data.c): which calls are drawn, and where.
 */
#ifndef PROFILE_SVG_FLAME_H
#define PROFILE_SVG_FLAME_H

#include "profile/writers.h"

#define FLAME_WIDTH      1400.0 /* px */
#define FLAME_EDGE       10.0
#define FLAME_LEAST      0.08 /* px; narrower frames are left out, */
#define FLAME_LEAST_EVER 1.0  /* unless they are this wide, in px, at a moment of the time line */
#define FLAME_ROW        17   /* height of a row, px */
#define FLAME_CHARACTER  7    /* width of a letter, px */
#define FLAME_HEAD       82   /* height of the head, px */
#define FLAME_TIME       56   /* height of the time line, px */

/* A call in the picture. */
struct flame_box {
	uint32_t call, caller;
	const char *name;
	uint64_t rank;   /* the weight of a process; 0: the box is ordered by name */
	double x, width; /* px, from the left edge of the frames */
	double ever;     /* the greatest width at a moment of the time line, px */
	unsigned row;
	uint32_t number; /* number of the frame in the file, from 1 on; 0: it is not drawn */
};

struct flame {
	const struct profile *p;
	const char *title;
	struct flame_box *boxes; /* sorted by (caller, name) */
	size_t count;
	size_t *first;      /* by call, the index of its first callee in `boxes` */
	uint32_t *frame_of; /* by call, the number of the frame in which it is drawn, which may be a caller's; 0: "all" */
	uint32_t frames;    /* number of frames in the file */
	uint64_t *self, *total;
	double scale;
	unsigned rows;
	bool time; /* there is a time line */
	FILE *out;
};

/* Prints XML text. Characters that XML does not allow, or that are not shown as they are, become '?'. */
void xml_put(const char *text, FILE *out);
/* Prints a weight, such as "226 samples". */
void weight_put(const struct profile *p, uint64_t weight, FILE *out);
/* Prints the colour of a call. */
void colour_put(const struct flame *f, uint32_t call);
/* Returns the y coordinate of the first row in px. */
static inline double flame_top(const struct flame *f) { return FLAME_HEAD + (f->time ? FLAME_TIME + 6 : 0); }

/* Prints the head: what was measured, how and when, and what the colours mean. */
void svg_head_put(const struct flame *f);
/* Prints the element that the script reads (flame.js). Returns false if out of memory. */
bool svg_data_put(const struct flame *f);

#endif
