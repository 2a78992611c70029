/* SPDX-License-Identifier: MIT */
/*
 * Walks of another process, and tables of files: for walks.c.
 */
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <etch/orc.h>

#include "walks.h"

static struct etch_target_module targets[64];
static size_t target_count;

/* The tables of loaded modules, from their files or from sidecars in a directory. */
static int target_add(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct etch_target_module *t = &targets[target_count];
	const char *path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
	uint64_t address = 0, bytes = 0;
	off_t length;
	void *file;
	int fd;

	(void)size;
	t->bias = info->dlpi_addr;
	t->start = UINT64_MAX;
	t->end = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type != PT_LOAD)
			continue;
		if (t->bias + p->p_vaddr < t->start)
			t->start = t->bias + p->p_vaddr;
		if (t->bias + p->p_vaddr + p->p_memsz > t->end)
			t->end = t->bias + p->p_vaddr + p->p_memsz;
	}
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	length = lseek(fd, 0, SEEK_END);
	file = mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	must(file != MAP_FAILED);
	t->table = etch_table_in_file(file, (size_t)length, &bytes, &address);
	if (!t->table && *(const char *)arg) {
		char side[4096];

		/* One sidecar a file, named by the test. */
		snprintf(side, sizeof(side), "%s/%s", (const char *)arg, strrchr(path, '/') + 1);
		fd = open(side, O_RDONLY);
		if (fd >= 0) {
			length = lseek(fd, 0, SEEK_END);
			file = mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, fd, 0);
			close(fd);
			must(file != MAP_FAILED);
			t->table = etch_table_in_file(file, (size_t)length, &bytes, &address);
			must(t->table && !address);
		}
	}
	t->size = bytes;
	t->address = address;
	target_count += t->table != NULL;
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct etch_target_module *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int read_peek(void *arg, uint64_t at, uint64_t *word)
{
	errno = 0;
	*word = (uint64_t)ptrace(PTRACE_PEEKDATA, *(pid_t *)arg, (void *)at, NULL);
	return errno;
}

static struct shared {
	int n;
	void *ips[MOST];
} *shared;

static NOINLINE void stop_here(void)
{
	shared->n = etch_backtrace(shared->ips, MOST);
	__asm__ __volatile__("int3");
	BARRIER;
}

void case_remote(void)
{
	const char *side = arguments[0] ? arguments[0] : "";
	struct etch_target target = { .read = read_peek, .modules = targets };
	struct user_regs_struct r;
	struct etch_cursor c;
	void *ips[MOST];
	int status, n;
	pid_t pid;

	dl_iterate_phdr(target_add, (void *)side);
	qsort(targets, target_count, sizeof(*targets), by_start);
	must(target_count >= 1);
	target.module_count = target_count;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(shared != MAP_FAILED);
	bottom = stop_here;
	pid = fork();
	if (!pid) {
		must(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
		places();
		_exit(0);
	}
	target.arg = &pid;
	for (n = 0; waitpid(pid, &status, 0) == pid && WIFSTOPPED(status); n++) {
		uint64_t regs[17];
		int m, end;

		must(WSTOPSIG(status) == SIGTRAP && !ptrace(PTRACE_GETREGS, pid, NULL, &r));
		regs[ETCH_RAX] = r.rax, regs[ETCH_RCX] = r.rcx, regs[ETCH_RDX] = r.rdx, regs[ETCH_RBX] = r.rbx;
		regs[ETCH_RSP] = r.rsp, regs[ETCH_RBP] = r.rbp, regs[ETCH_RSI] = r.rsi, regs[ETCH_RDI] = r.rdi;
		regs[ETCH_R8] = r.r8, regs[ETCH_R9] = r.r9, regs[ETCH_R10] = r.r10, regs[ETCH_R11] = r.r11;
		regs[ETCH_R12] = r.r12, regs[ETCH_R13] = r.r13, regs[ETCH_R14] = r.r14, regs[ETCH_R15] = r.r15;
		regs[ETCH_RIP] = r.rip;
		must(!etch_cursor_init_target(&c, &target, regs));
		end = cursor_rest(&c, ips, &m);
		same("remote", ips + 1, m - 1, shared->ips + 1, shared->n - 1);
		if (end != ETCH_UNWIND_END)
			fail("%s", etch_unwind_strerror(end));
		must(!ptrace(PTRACE_CONT, pid, NULL, NULL));
	}
	must(WIFEXITED(status) && WEXITSTATUS(status) == 0 && n > 30);
	must(etch_cursor_init_target(&c, NULL, NULL) == ETCH_UNWIND_EINVAL);
}

/* Mutants of a file with a table: found or refused, and if found, safe to look up. */
static int read_none(void *arg, uint64_t at, uint64_t *word)
{
	*word = code_address();
	return arg != NULL || at % 64 == 0;
}

void case_file(void)
{
	int fd = open(arguments[0], O_RDONLY);
	size_t length = (size_t)lseek(fd, 0, SEEK_END), kept = 0;
	uint8_t *file = malloc(length), *copy;
	const Elf64_Ehdr *h = (const void *)file;
	const struct etch_unwind *u;
	uint64_t size, address, table;

	must(fd >= 0 && file && pread(fd, file, length, 0) == (ssize_t)length);
	u = etch_table_in_file(file, length, &size, &address);
	must(u && address && (uint64_t)((const uint8_t *)u - file) + size <= length);
	table = (uint64_t)((const uint8_t *)u - file);
	for (int i = 0; i < atoi(arguments[1]); i++) {
		size_t cut = rnd() % 8 ? length : rnd() % length;
		struct etch_target_module m = { 0 };
		struct etch_target t = { .read = read_none, .modules = &m, .module_count = 1 };
		uint64_t regs[17];

		copy = malloc(cut ? cut : 1);
		must(copy);
		memcpy(copy, file, cut);
		for (int n = (int)(rnd() % 4) + 1; n--;) {
			uint64_t at;

			if (rnd() % 4 == 0)
				at = rnd() % sizeof(*h);
			else if (rnd() % 3 == 0)
				at = h->e_phoff + rnd() % (h->e_phnum * sizeof(Elf64_Phdr));
			else if (rnd() % 2)
				at = table - 48 + rnd() % (48 + sizeof(*u));
			else
				at = table + rnd() % size;
			if (at < cut)
				copy[at] = rnd() % 2 ? (uint8_t)rnd() : copy[at] ^ (uint8_t)(1u << rnd() % 8);
		}
		m.table = etch_table_in_file(copy, cut, &m.size, &m.address);
		if (m.table) {
			struct etch_cursor c;

			kept++;
			m.end = UINT64_MAX;
			must((const uint8_t *)m.table >= copy && (const uint8_t *)m.table + m.size <= copy + cut);
			for (int k = 0; k < 50; k++) {
				for (int r = 0; r < 17; r++)
					regs[r] = rnd();
				regs[ETCH_RIP] = m.table->text + (m.table->text_size ? rnd() % m.table->text_size : 0);
				must(!etch_cursor_init_target(&c, &t, regs));
				for (int n = 0; n < 20 && !etch_step(&c);)
					n++;
			}
		}
		free(copy);
	}
	printf("%zu kept\n", kept);
	must(kept > 0);
	free(file);
}
