/* SPDX-License-Identifier: MIT */
/* Finds the file of a command and checks it before the command is run (command_file.c). */
#ifndef PROFILE_COMMAND_FILE_H
#define PROFILE_COMMAND_FILE_H

#include <limits.h>
#include <stdbool.h>

#include "support/error.h"

/* Finds the file that execvp(3) would run. Returns false if there is none. */
bool command_path(const char *name, char out[PATH_MAX]);

enum command_rights {
	RIGHTS_NONE,
	RIGHTS_SET_ID,       /* set-user-ID, set-group-ID */
	RIGHTS_CAPABILITIES, /* of the file */
};

/* Returns the privileges that the program at a path would have beyond those of its user. */
enum command_rights command_rights(const char *path);

#endif
