/* SPDX-License-Identifier: MIT */
/* Finds and checks the file of a command (command_file.h). */
#include "profile/command_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

bool command_path(const char *name, char out[PATH_MAX])
{
	const char *path = getenv("PATH"), *p;

	if (strchr(name, '/'))
		return snprintf(out, PATH_MAX, "%s", name) < PATH_MAX;
	for (p = path ? path : "/bin:/usr/bin"; p; p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL) {
		size_t n = strcspn(p, ":");
		struct stat st;

		if (snprintf(out, PATH_MAX, "%.*s%s%s", (int)n, p, n ? "/" : "", name) < PATH_MAX && !stat(out, &st) &&
		    !S_ISDIR(st.st_mode) && !access(out, X_OK))
			return true;
	}
	return false;
}

enum command_rights command_rights(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return RIGHTS_NONE;
	if (((st.st_mode & S_ISUID) && st.st_uid != geteuid()) ||
	    ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid()))
		return RIGHTS_SET_ID;
	return geteuid() && getxattr(path, "security.capability", NULL, 0) > 0 ? RIGHTS_CAPABILITIES : RIGHTS_NONE;
}
