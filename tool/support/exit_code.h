/* SPDX-License-Identifier: MIT */
/* The exit codes that all commands use. `etch profile` and `etch heap` end with the exit status of the command that
 * they run. If they fail themselves and that status is 0, or if no command ran, they end with EXIT_UNUSABLE. */
#ifndef SUPPORT_EXIT_CODE_H
#define SUPPORT_EXIT_CODE_H

enum exit_code {
	EXIT_CLEAN = 0,
	EXIT_FINDINGS = 1, /* --werror, or check has findings */
	EXIT_UNUSABLE = 2, /* unusable input, bad arguments, or failed output */
};

#endif
