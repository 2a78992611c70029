/* SPDX-License-Identifier: MIT */
/* Checks that a command can be run with a preloaded library (heap_session.h). */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "heap/heap_session.h"
#include "support/run.h"

#define SCRIPTS_MOST 5 /* a script's interpreter may be a script (execve(2)) */
#define PHDRS_MOST   64

/* Finds the interpreter that a script's first line names. */
static bool script_interpreter(const char *text, size_t size, char out[PATH_MAX])
{
	size_t at = 2, end;

	if (size < 3 || text[0] != '#' || text[1] != '!')
		return false;
	while (at < size && (text[at] == ' ' || text[at] == '\t'))
		at++;
	for (end = at; end < size && !strchr(" \t\n", text[end]) && text[end]; end++)
		;
	if (end == at || end == size || end - at >= PATH_MAX)
		return false;
	memcpy(out, text + at, end - at);
	out[end - at] = 0;
	return true;
}

/* Checks a program's dynamic linker. Returns 0, or -1 and the reason why the recorder cannot be preloaded. */
static int interpreter_check(int fd, const Elf64_Ehdr *h, struct error *e)
{
	char path[PATH_MAX] = "";
	Elf64_Phdr p;

	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_machine != EM_X86_64)
		return error_set(e, "it is not a program for x86-64: its allocations cannot be recorded");
	for (unsigned i = 0; i < h->e_phnum && i < PHDRS_MOST; i++) {
		size_t size;

		if (pread(fd, &p, sizeof(p), (off_t)(h->e_phoff + i * sizeof(p))) != sizeof(p))
			break;
		if (p.p_type != PT_INTERP)
			continue;
		size = p.p_filesz < sizeof(path) ? p.p_filesz : sizeof(path) - 1;
		if (pread(fd, path, size, (off_t)p.p_offset) != (ssize_t)size)
			path[0] = 0;
		path[sizeof(path) - 1] = 0;
	}
	if (!*path)
		return error_set(e, "it is a static program, which loads no library: its allocations cannot be recorded");
	if (strstr(path, "ld-musl"))
		return error_set(e, "it is a program for musl, and the recorder is a library for glibc");
	return 0;
}

static int file_check(const char *path, char next[PATH_MAX], struct error *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err = 0;
	union {
		Elf64_Ehdr elf;
		char text[PATH_MAX + 16];
	} head;
	ssize_t n;

	*next = 0;
	if (fd < 0)
		return 0; /* it is not readable: running it will show whether it can be recorded */
	n = pread(fd, &head, sizeof(head), 0);
	if (n >= (ssize_t)sizeof(head.elf) && !memcmp(head.elf.e_ident, ELFMAG, SELFMAG))
		err = interpreter_check(fd, &head.elf, e);
	else if (n < 0 || !script_interpreter(head.text, (size_t)n, next))
		*next = 0;
	close(fd);
	return err;
}

int heap_command_check(const char *name, struct error *e)
{
	char path[PATH_MAX], next[PATH_MAX];

	if (command_check(name, e))
		return -1;
	if (!command_path(name, path))
		return 0; /* exec will report it */
	for (int i = 0; i < SCRIPTS_MOST; i++) {
		if (!i && command_rights(path) != RIGHTS_NONE)
			return error_set(e, "a set-user-ID, set-group-ID or privileged program cannot be recorded: "
			                    "the dynamic linker preloads nothing into it");
		if (file_check(path, next, e))
			return -1;
		if (!*next)
			break;
		memcpy(path, next, sizeof(path));
	}
	return 0;
}
