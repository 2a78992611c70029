/* SPDX-License-Identifier: MIT */
/*
 * Rows of one piece: what the states prove, with .eh_frame as the second witness.
 * Both agree: the row as .eh_frame writes it. The code cannot tell: .eh_frame's.
 * The code says otherwise: the code's, and a finding.
 */
#ifndef CODE_EMIT_H
#define CODE_EMIT_H

#include "code/flow.h"
#include "code/frames.h"

/* What is known of one piece; owned. */
struct piece_rows {
	struct row *rows;      /* from the piece's start to its end; neighbours differ */
	uint32_t count;
	struct findings findings; /* addresses of the space, section 0 */
	uint64_t undefined;    /* bytes */
};

/* A worker's memory. */
struct emit {
	struct row *rows;
	size_t count, room;
	struct findings findings;
	struct etch_cfi_row *cfi; /* of the piece's FDE, clipped to it */
	size_t cfi_count, cfi_room, cfi_at;
	struct etch_cfi_row *shared; /* rows of one FDE for many pieces: that of the PLT */
	size_t shared_count, shared_room;
	long shared_fde;
	const struct piece *piece;
	struct flow *flow;
	bool no_cfi, failed, silent; /* silent: the last disagreement has been told */
	bool asks;                /* numbers would say more (flow.numbered) */
	bool agreed;              /* the state seen last knows what .eh_frame's row for it is worth */
	uint64_t last;            /* the instruction seen last */
	uint64_t at;              /* rows are made up to here */
	uint64_t quiet;           /* up to here .eh_frame has the row that it has at `at` */
	struct etch_rule rule;    /* of the state seen last */
	bool stale;               /* it is not: rules have changed inside another instruction */
	const struct state *state; /* of the instruction at hand */
	enum flow_start start;    /* what .eh_frame says of the piece's start; START_ASSUMED where it says nothing */
};

/* Reads what .eh_frame says of a piece, or with no_cfi nothing. False: out of memory. */
bool emit_begin(struct emit *e, const struct flow_env *env, uint32_t piece, bool no_cfi);
/* Rows of the piece that emit_begin() has been called for and `f` has just run
 * over; completes f's results. False: out of memory. */
bool emit_rows(struct emit *e, struct flow *f, struct piece_rows *out);
void emit_free(struct emit *e);
void piece_rows_free(struct piece_rows *p);

#endif
