/* SPDX-License-Identifier: MIT */
/*
 * What a person should know of the flow of one piece of code: groups F (flow) and S (stack),
 * and D005, D006, of docs/findings.md. Asked for by frames_options.observe; looks at a piece
 * when the flow analysis has just been over it, with the states that it has found.
 */
#ifndef CODE_OBSERVE_H
#define CODE_OBSERVE_H

#include "code/flow.h"
#include "report/finding.h"

/*
 * Adds what there is to say of the piece that flow_run() and flow_states() have just been
 * through. Findings have addresses of the space, section 0 (frames_find() sets both right).
 * A piece is run again when more is known of it: what it gave before is thrown away.
 * False: out of memory.
 */
bool observe_piece(struct flow *f, struct findings *out);

#endif
