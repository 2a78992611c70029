/* SPDX-License-Identifier: MIT */
/*
 * trap.c: the SIGSEGV handler for a plain store to a read-only etched object. It gives up the constants of the page
 * (give_up.c), and the store is executed again. If that is forbidden or fails, the handler says what happened and
 * forwards the fault to the previous handler or the default action, so that the process dies, or continues, as if
 * libetch had no handler.
 *
 * RULES OF THIS FILE. Everything except trap_install() and etch_stray() runs in signal context, on a thread stopped
 * anywhere, perhaps inside libetch with its lock held. So: no malloc, no thread-local storage, no lock except
 * etch_lock_in_handler(), which never waits for this thread itself, and calls only to this file, give_up.c,
 * trap_line.c, sys.h and chain.h. The code that reports, without the lock, reads of other files' state only
 * module_list and the blocks that it links, which are published with a release store and never unmapped (module.c).
 * Do not introduce any other dependency here.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <ucontext.h>

#include "faults/chain.h"
#include "patch/give_up.h"
#include "patch/internal.h"
#include "patch/trap_line.h"
#include "common/sys.h"

static struct chain before;
static int installed;

/* Plain loops instead of libc calls, which may not be bound yet. */
static int same(const void *a, const void *b, size_t n)
{
	const uint8_t *x = a, *y = b;

	while (n && *x == *y)
		n--, x++, y++;
	return !n;
}

static const char *find_char(const char *s, char c, size_t n)
{
	for (; n; n--, s++)
		if (*s == c)
			return s;
	return NULL;
}

/* ---- text, without libc ------------------------------------------------------- */

/* One message at a time; the buffers are static because an alternate signal stack may have only 2 KiB. */
static int reporting;
enum { REPORTING = 1, REPORTED = 2 };
static char message[8192];
static size_t used;
static char maps[4096];

static void put(const char *s, size_t most)
{
	while (*s && most-- && used < sizeof(message))
		message[used++] = *s++;
}

static void put_string(const char *s) { put(s, SIZE_MAX); }

static void put_hex(uint64_t v)
{
	int shift = 60;

	put_string("0x");
	while (shift && !(v >> shift & 15))
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		put(&"0123456789abcdef"[v >> shift & 15], 1);
}

/* ---- the object that was stored to --------------------------------------------------- */

static int has_segment(const struct module *m, uint64_t at) { return image_segment(&m->image, at, 1) != NULL; }

/* The first module for which has(module, at) is true. If the list changes during the walk, it is walked again, so that
 * no module that stays loaded is missed. */
static const struct module *module_with(int (*has)(const struct module *m, uint64_t at), uint64_t at)
{
	const struct module *m;
	unsigned changes;

	do {
		while ((changes = __atomic_load_n(&module_changes, __ATOMIC_SEQ_CST)) & 1)
			__asm__ __volatile__("pause");
		m = __atomic_load_n(&module_list, __ATOMIC_ACQUIRE);
		/* Limited, because a list that is being changed could contain a cycle for this reader. */
		for (unsigned most = 100000; m && most && !has(m, at); most--)
			m = __atomic_load_n(&m->next, __ATOMIC_ACQUIRE);
	} while ((!m || !has(m, at)) && changes != __atomic_load_n(&module_changes, __ATOMIC_SEQ_CST));
	return m && has(m, at) ? m : NULL;
}

/* The module that has etched objects on the page of this address, or on pages around it. */
static const struct module *module_near(uint64_t at) { return module_with(module_has_page, at); }

static void put_object(const struct module *m, uint64_t at)
{
	size_t i = module_object_from(m, at);
	const struct object *o = i < m->object_count ? &m->object[i] : NULL;
	const char *name;
	size_t most;

	if ((!o || o->addr > at) && i)
		o = &m->object[i - 1]; /* the padding after an object */
	if (!o) {
		put_hex(at);
		return;
	}
	name = module_object_name(m, o, &most);
	if (name)
		put(name, most < 512 ? most : 512);
	put_string("+");
	put_hex(at - o->addr);
}

/* ---- the function that stored -------------------------------------------------------- */

/* A mapped ELF file; every read is checked against its size. */
struct file {
	const uint8_t *at;
	uint64_t size;
};

static const void *file_range(const struct file *f, uint64_t offset, uint64_t size, uint64_t count)
{
	if (count && size > UINT64_MAX / count)
		return NULL;
	size *= count;
	return offset <= f->size && size <= f->size - offset ? f->at + offset : NULL;
}

/* Finds the name of the function at this virtual address in one symbol table. */
static const char *symbol_find(const struct file *f, const Elf64_Shdr *table, const Elf64_Shdr *strings,
                               uint64_t address, uint64_t *start)
{
	const Elf64_Sym *s = file_range(f, table->sh_offset, table->sh_size, 1);
	const char *names = file_range(f, strings->sh_offset, strings->sh_size, 1), *best = NULL;

	for (uint64_t i = 0; s && names && i < table->sh_size / sizeof(*s); i++) {
		unsigned type = ELF64_ST_TYPE(s[i].st_info);

		if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s[i].st_shndx == SHN_UNDEF)
			continue;
		if (address < s[i].st_value || address - s[i].st_value >= s[i].st_size)
			continue;
		/* Only names that end inside the string table are used. */
		if (s[i].st_name >= strings->sh_size || !find_char(names + s[i].st_name, 0, strings->sh_size - s[i].st_name))
			continue;
		best = names + s[i].st_name;
		*start = s[i].st_value;
	}
	return best;
}

static void put_number(uint64_t v)
{
	char digits[20];
	size_t n = sizeof(digits);

	do
		digits[--n] = (char)('0' + v % 10);
	while (v /= 10);
	put(digits + n, sizeof(digits) - n);
}

/* Writes the name of the function that holds the address. */
static void put_symbol(const struct file *f, const Elf64_Ehdr *h, uint64_t address)
{
	const Elf64_Shdr *sh = h->e_shentsize == sizeof(*sh) ? file_range(f, h->e_shoff, sizeof(*sh), h->e_shnum) : NULL;
	const char *name;
	uint64_t start = 0;

	for (uint32_t type = SHT_SYMTAB; sh && type; type = type == SHT_SYMTAB ? SHT_DYNSYM : 0)
		for (unsigned i = 0; i < h->e_shnum; i++) {
			if (sh[i].sh_type != type || sh[i].sh_link >= h->e_shnum)
				continue;
			name = symbol_find(f, &sh[i], &sh[sh[i].sh_link], address, &start);
			if (name) {
				put(name, 1024);
				put_string("+");
				put_hex(address - start);
				return;
			}
		}
	put_string("code at ");
	put_hex(address);
}

static void put_line(const struct file *f, uint64_t address)
{
	struct trap_line line;

	if (!trap_line_find(f->at, f->size, address, &line))
		return;
	put_string(" at ");
	if (line.directory) {
		put(line.directory, 1024);
		put_string("/");
	}
	put(line.file, 1024);
	put_string(":");
	put_number(line.line);
}

static int put_function_of(const struct file *f, uint64_t offset)
{
	const Elf64_Ehdr *h = file_range(f, 0, sizeof(*h), 1);
	const Elf64_Phdr *p;
	uint64_t address = 0;
	int known = 0;

	if (!h || !same(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_phentsize != sizeof(*p))
		return 0;
	p = file_range(f, h->e_phoff, sizeof(*p), h->e_phnum);
	for (unsigned i = 0; p && i < h->e_phnum && !known; i++)
		if (p[i].p_type == PT_LOAD && offset >= p[i].p_offset && offset - p[i].p_offset < p[i].p_filesz) {
			address = p[i].p_vaddr + (offset - p[i].p_offset);
			known = 1;
		}
	if (!known)
		return 0;
	put_symbol(f, h, address);
	put_line(f, address);
	return 1;
}

static int put_function_in(const char *path, uint64_t offset)
{
	struct stat st;
	struct file f;
	long fd, at;
	int ret = 0;

	fd = sys_call3(SYS_open, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	if (fd < 0)
		return 0;
	if (sys_call3(SYS_fstat, fd, (long)&st, 0) == 0 && st.st_size > 0) {
		at = sys_call6(SYS_mmap, 0, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (at > 0 || at < -4095) {
			f.at = (const uint8_t *)at;
			f.size = (uint64_t)st.st_size;
			ret = put_function_of(&f, offset);
			sys_munmap((void *)at, f.size);
		}
	}
	sys_call3(SYS_close, fd, 0, 0);
	return ret;
}

/* The value of a lower-case hexadecimal digit; -1 if it is none. */
static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static const char *hex_read(const char *s, uint64_t *v)
{
	for (*v = 0; hex_digit(*s) >= 0; s++)
		*v = *v << 4 | (uint64_t)hex_digit(*s);
	return s;
}

/* Parses a line of /proc/self/maps: start-end perms offset dev inode path (proc(5)). Returns the path of the mapping
 * that contains `at`, and the file offset of `at`; else null. */
static const char *maps_line(const char *s, uint64_t at, uint64_t *offset)
{
	uint64_t start, end, from;

	s = hex_read(s, &start);
	if (*s++ != '-')
		return NULL;
	s = hex_read(s, &end);
	if (at < start || at >= end)
		return NULL;
	while (*s && *s != ' ')
		s++;
	while (*s == ' ')
		s++;
	while (*s && *s != ' ')
		s++; /* perms */
	while (*s == ' ')
		s++;
	hex_read(s, &from);
	*offset = from + (at - start);
	while (*s && *s != '/')
		s++;
	return *s ? s : NULL;
}

/* Finds the path of the file mapped at this address. Lines longer than the buffer are skipped (a path of over 4000
 * characters). */
static const char *maps_find(uint64_t at, uint64_t *offset)
{
	long fd = sys_call3(SYS_open, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0), n;
	const char *found = NULL;
	size_t have = 0;

	if (fd < 0)
		return NULL;
	while (!found && (n = sys_call3(SYS_read, fd, (long)(maps + have), (long)(sizeof(maps) - 1 - have))) > 0) {
		const char *line = maps, *end;

		have += (size_t)n;
		maps[have] = 0;
		while ((end = find_char(line, '\n', have - (size_t)(line - maps)))) {
			maps[end - maps] = 0;
			found = maps_line(line, at, offset);
			if (found)
				break;
			line = end + 1;
		}
		if (found)
			break;
		have -= (size_t)(line - maps);
		if (have == sizeof(maps) - 1)
			have = 0;
		for (size_t i = 0; i < have; i++) /* copies downwards: the ranges may overlap */
			maps[i] = line[i];
	}
	sys_call3(SYS_close, fd, 0, 0);
	return found;
}

static void put_function(uint64_t at)
{
	uint64_t offset = 0;
	const char *path = maps_find(at, &offset);
	const struct module *m = __atomic_load_n(&module_list, __ATOMIC_ACQUIRE);
	size_t mark = used;

	if (path) {
		if (!put_function_in(path, offset)) {
			put_string("code at file offset ");
			put_hex(offset);
		}
		put_string(" (");
		put(path, 4096);
		put_string(")");
		return;
	}
	/* Without /proc, uses the path that the module had when it was loaded. */
	for (unsigned most = 100000; m && most; most--, m = m->next)
		if (image_segment(&m->image, at, 1)) {
			put_string("code at ");
			put_hex(at - m->image.bias);
			put_string(" (");
			put_string(*m->path ? m->path : "the program");
			put_string(")");
			return;
		}
	used = mark;
	put_string("code at ");
	put_hex(at);
}

/* ---- the handler ------------------------------------------------------------------------ */

static void report(const struct module *m, uint64_t at, uint64_t rip, int given_up)
{
	size_t done = 0;
	long sent;

	used = 0;
	put_string("etch: stray store: ");
	put_function(rip);
	put_string(" stores to the etched object ");
	put_object(m, at);
	put_string(given_up ? ", whose value was in the code: what is on its page is read from memory until etch_sync"
	                      " (ETCH-I102 in findings.md of its documentation)\n"
	                    : ", whose value is in the code; its memory is read-only\n"
	                      "etch: set it with etch_set or imv_set, or call etch_release before a phase of plain stores"
	                      " (ETCH-I101 in findings.md of its documentation)\n");
	while (done < used) {
		sent = sys_call3(SYS_write, 2, (long)(message + done), (long)(used - done));
		if (sent > 0)
			done += (size_t)sent;
		else if (sent != -EINTR)
			break;
	}
}

/*
 * Was the fault in text that mremap(2) had unmapped without mapping its copy (page_swap.c)? During a swap the copy is
 * yet to be mapped; after it, the page is there. Then the instruction is repeated.
 */
static int text_is_back(uint64_t at)
{
	const struct module *m = module_with(has_segment, at);
	const struct segment *s = m ? image_segment(&m->image, at, 1) : NULL;

	/* The same holds for pages of variables (data_swap.c). */
	if (!s || !(s->prot == (PROT_READ | PROT_EXEC) || (s->prot & PROT_WRITE)))
		return 0;
	return __atomic_load_n(&swap_active, __ATOMIC_ACQUIRE) ||
	       sys_call3(SYS_msync, (long)PAGE_OF(at), ETCH_PAGE, MS_ASYNC) == 0;
}

/* Reports the store before the process dies; only one thread does. Another thread gives that one time to finish its
 * report. A report that a page was given up is waited for as well. */
static void report_last(const struct module *m, uint64_t at, uint64_t rip)
{
	int was = 0;

	for (unsigned i = 0; i < 1u << 24; i++, was = 0) {
		if (__atomic_compare_exchange_n(&reporting, &was, REPORTING, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
			report(m, at, rip, 0);
			__atomic_store_n(&reporting, REPORTED, __ATOMIC_RELEASE);
		}
		if (was == REPORTED)
			break;
		__asm__ __volatile__("pause");
	}
}

/* Reports that a page has been given up for the first time. Called under the lock, so that its module stays. */
static void report_given_up(const struct module *m, uint64_t at, uint64_t rip)
{
	int was = 0;

	if (!__atomic_compare_exchange_n(&reporting, &was, REPORTING, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
		return;
	report(m, at, rip, 1);
	__atomic_store_n(&reporting, 0, __ATOMIC_RELEASE);
}

/* ETCH_STRAY_*: how a stray store is handled. */
static unsigned mode;

/* Can the store be executed again? */
static int store_again(uint64_t at, uint64_t rip)
{
	const struct module *m = module_near(at);
	enum stray_outcome outcome;

	if (!m)
		return 0;
	if (etch_lock_in_handler()) {
		/* If this thread already has the lock, nothing else can be done; but the owner of the page is known. */
		if (module_page_readonly(m, at))
			report_last(m, at, rip);
		return 0;
	}
	outcome = stray_store(at, rip, mode, &m);
	if (outcome == STRAY_GIVEN_UP && (mode & ETCH_STRAY_WARN) && given_up_at(m, at) && given_up_at(m, at)->count == 1)
		report_given_up(m, at, rip);
	etch_unlock();
	if (outcome == STRAY_REFUSED)
		report_last(m, at, rip);
	return outcome == STRAY_GIVEN_UP || outcome == STRAY_RETRY;
}

/* What the last fault was that was answered because a page had come back, as one word: see repeated(). */
static uint64_t last_back;

/*
 * Has this thread had the same fault before, with no swap since? Then no swap is the cause, and the instruction would
 * fault for ever. The kernel reports SEGV_MAPERR for any failure when it executes an instruction in place of the
 * processor, such as sgdt where the processor forbids it (UMIP; arch/x86/kernel/umip.c).
 */
static int repeated(uint64_t at, uint64_t rip)
{
	uint64_t now = (uint64_t)sys_call3(SYS_gettid, 0, 0, 0) << 32 | __atomic_load_n(&swap_count, __ATOMIC_RELAXED);

	/* The multipliers are odd and arbitrary. Different faults almost never give the same word. */
	now = (now * 0x9e3779b97f4a7c15u ^ at) * 0xc2b2ae3d27d4eb4fu ^ rip;
	return __atomic_exchange_n(&last_back, now, __ATOMIC_RELAXED) == now;
}

static int is_answered(const siginfo_t *info, const ucontext_t *u)
{
	uint64_t at = (uint64_t)(uintptr_t)info->si_addr, rip = (uint64_t)u->uc_mcontext.gregs[REG_RIP];

	if (info->si_code == SEGV_MAPERR) {
		if (!text_is_back(at))
			return 0;
		if (__atomic_load_n(&swap_active, __ATOMIC_ACQUIRE) || !repeated(at, rip))
			return 1;
	} else if (info->si_code != SEGV_ACCERR)
		return 0;
	/* Bit 1 of a page fault's error code: a write (Intel SDM vol. 3, 4.7). */
	return (u->uc_mcontext.gregs[REG_ERR] & 2) && store_again(at, rip);
}

static void handler(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	if (!is_answered(info, context))
		chain_forward(&before, info, context);
}

ETCH_API int etch_stray_store(const void *siginfo, const void *context)
{
	const siginfo_t *info = siginfo;

	return info && context && info->si_signo == SIGSEGV && is_answered(info, context);
}

unsigned stray_mode(void) { return __atomic_load_n(&mode, __ATOMIC_RELAXED); }

/* The mode of one word of ETCH_STRAY, in which commas separate the words. */
static unsigned mode_of(const char *word, size_t size)
{
	static const char *const unknown[2] = {"etch: ETCH_STRAY: \"", "\" is not one of die, warn, calls, eager\n"};
	static const struct {
		const char *name;
		unsigned mode;
	} names[] = {
		{"die", ETCH_STRAY_DIE}, {"warn", ETCH_STRAY_WARN}, {"calls", ETCH_STRAY_CALLS}, {"eager", ETCH_STRAY_EAGER}};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i].name) == size && same(names[i].name, word, size))
			return names[i].mode;
	sys_call3(SYS_write, 2, (long)unknown[0], (long)strlen(unknown[0]));
	sys_call3(SYS_write, 2, (long)word, (long)size);
	sys_call3(SYS_write, 2, (long)unknown[1], (long)strlen(unknown[1]));
	return 0;
}

/* Reads the environment once. A program with more rights than its user ignores it. */
void stray_mode_read(void)
{
	static int done;
	const char *text = __atomic_exchange_n(&done, 1, __ATOMIC_RELAXED) ? NULL : secure_getenv("ETCH_STRAY"), *end;

	for (; text && *text; text = *end ? end + 1 : end) {
		for (end = text; *end && *end != ','; end++)
			;
		__atomic_or_fetch(&mode, mode_of(text, (size_t)(end - text)), __ATOMIC_RELAXED);
	}
}

ETCH_API unsigned etch_stray(unsigned set, unsigned clear)
{
	unsigned was;

	stray_mode_read();
	was = __atomic_load_n(&mode, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&mode, &was, (was & ~clear) | set, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return was;
}

int trap_guards(void)
{
	struct sigaction now;

	if ((mode & ETCH_STRAY_CHAINED) || !installed)
		return 1;
	return !sigaction(SIGSEGV, NULL, &now) && chain_has(&now, SIGSEGV);
}

/*
 * Installs the handler, before the first page becomes read-only. A handler that the program installs later replaces
 * this one: it then receives plain stores to etched objects as ordinary faults.
 */
void trap_install(void)
{
	if (installed)
		return;
	stray_mode_read();
	chain_install(&before, SIGSEGV, handler);
	installed = 1;
}

/* If libetch.a is part of a shared object, its unloading must remove the handler. libetch.so itself is never unloaded
 * (-z nodelete). */
__attribute__((destructor)) static void trap_remove(void) { chain_remove(&before); }
