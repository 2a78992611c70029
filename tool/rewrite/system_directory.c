/* SPDX-License-Identifier: MIT */
/* Recognises directories of a system by device and inode, which neither links nor bind mounts hide
 * (system_directory.h). */
#include "rewrite/system_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Everything below these directories belongs to the system too. */
static const char *const whole[] = {"/bin",         "/boot",       "/dev",       "/etc",     "/lib",       "/lib32",
                                    "/lib64",       "/libx32",     "/proc",      "/run",     "/sbin",      "/snap",
                                    "/sys",         "/usr/bin",    "/usr/games", "/usr/lib", "/usr/lib32", "/usr/lib64",
                                    "/usr/libexec", "/usr/libx32", "/usr/sbin"};
/* Directories below these may be a user's own. */
static const char *const single[] = {"/",          "/home",      "/media",         "/mnt",           "/nix",
                                     "/nix/store", "/opt",       "/root",          "/srv",           "/tmp",
                                     "/usr",       "/usr/local", "/usr/local/bin", "/usr/local/lib", "/usr/local/sbin",
                                     "/usr/share", "/var",       "/var/lib",       "/var/tmp"};

static bool is_same(const struct stat *a, const char *path)
{
	struct stat b;

	return !stat(path, &b) && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

static bool is_one_of(const struct stat *st, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (is_same(st, list[i]))
			return true;
	return false;
}

bool is_directory(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

bool is_system_directory(const char *path)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), up;
	const char *home = getenv("HOME");
	struct stat st, above;
	bool found;

	if (fd < 0)
		return false;
	found = !fstat(fd, &st) &&
	        (is_one_of(&st, single, sizeof(single) / sizeof(single[0])) || (home && *home && is_same(&st, home)));
	/* Go upwards to the root, which is its own parent. */
	while (!found && fd >= 0 && !fstat(fd, &st)) {
		found = is_one_of(&st, whole, sizeof(whole) / sizeof(whole[0]));
		up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = up;
		if (fd >= 0 && !fstat(fd, &above) && above.st_dev == st.st_dev && above.st_ino == st.st_ino)
			break;
	}
	if (fd >= 0)
		close(fd);
	return found;
}
