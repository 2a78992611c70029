/* SPDX-License-Identifier: MIT */
/* Exit codes of all commands; `etch profile` and `etch heap` end with the exit status of the command that they run, and
 * with EXIT_UNUSABLE where that is 0 or there is none. */
#ifndef SUPPORT_EXIT_CODE_H
#define SUPPORT_EXIT_CODE_H

enum exit_code {
	EXIT_CLEAN = 0,
	EXIT_FINDINGS = 1, /* --werror, or check has findings */
	EXIT_UNUSABLE = 2, /* unusable input, bad arguments, or failed output */
};

#endif
