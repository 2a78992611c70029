/* SPDX-License-Identifier: MIT */
/*
 * sampler_where.c: what an address is in: a module, whose name and whether it brings a table go into
 * the report, or another mapping.
 */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "sampler.h"

/* Does this module bring a table: a segment that begins with etch's note. */
static int own_table(uint64_t start, uint64_t bias, int program)
{
	const Elf64_Ehdr *h = (const Elf64_Ehdr *)start;
	const Elf64_Phdr *p;
	size_t n;

	/* Of a program whose segments leave pages out between them glibc names the segment that an
	 * address is in, which need not begin with the ELF header. */
	if (program) {
		p = (const Elf64_Phdr *)getauxval(AT_PHDR);
		n = getauxval(AT_PHNUM);
	} else if (memcmp(h->e_ident, ELFMAG, SELFMAG)) {
		return 0;
	} else {
		p = (const Elf64_Phdr *)(start + h->e_phoff);
		n = h->e_phnum;
	}
	while (n--) {
		uint64_t in = p[n].p_offset ? 0 : 4096; /* the first segment begins with the ELF header */

		if (p[n].p_type == PT_LOAD && (p[n].p_flags & (PF_R | PF_W)) == PF_R && p[n].p_filesz >= in + 32 &&
		    !memcmp((const char *)(bias + p[n].p_vaddr + in) + 12, "etch", 5))
			return 1;
	}
	return 0;
}

static void module_fill(struct module *m, const struct dl_find_object *o)
{
	const char *name = o->dlfo_link_map->l_name;
	uint64_t start = (uint64_t)o->dlfo_map_start;
	int program = !name || !name[0];

	m->start = start;
	m->end = (uint64_t)o->dlfo_map_end;
	m->bias = o->dlfo_link_map->l_addr;
	m->own_table = (uint32_t)own_table(start, m->bias, program);
	if (program)
		name = report->program;
	for (size_t i = 0; i + 1 < sizeof(m->name) && name[i]; i++)
		m->name[i] = name[i];
	__atomic_store_n(&m->ready, 1, __ATOMIC_RELEASE);
}

int module_of(uint64_t at)
{
	struct dl_find_object o;
	uint64_t n = __atomic_load_n(&report->modules, __ATOMIC_ACQUIRE);

	if (_dl_find_object((void *)at, &o))
		return -1;
	for (uint64_t i = 0; i < n && i < MODULES; i++)
		if (report->module[i].start == (uint64_t)o.dlfo_map_start &&
		    report->module[i].bias == o.dlfo_link_map->l_addr)
			return (int)i;
	/* Two threads may both add it; samples.py adds up by name. */
	n = COUNT(modules, 1);
	if (n >= MODULES)
		return -1;
	module_fill(&report->module[n], &o);
	return (int)n;
}

uint64_t frame_of(uint64_t at)
{
	int m = module_of(at);

	return m < 0 ? at & 0xffffffffffffu : FRAME(m, at - report->module[m].bias);
}

static uint64_t hex(const char **p)
{
	uint64_t v = 0;

	for (;; (*p)++) {
		unsigned c = (unsigned char)**p;

		if (c - '0' < 10)
			v = v << 4 | (c - '0');
		else if (c - 'a' < 6)
			v = v << 4 | (c - 'a' + 10);
		else
			return v;
	}
}

/* A line of /proc/self/maps: is `at` in it, and where does the mapping begin? */
static int maps_line(const char *line, uint64_t at, uint64_t *start)
{
	uint64_t from = hex(&line), to;
	int i;

	line++;
	to = hex(&line);
	if (at - from >= to - from)
		return -1;
	*start = from;
	if (line[3] != 'x')
		return IN_NOTHING;
	for (i = 0; *line && i < 4; line++) /* permissions, offset, device, inode */
		i += *line == ' ';
	/* A JIT may map a file of no name twice: memfd, or one that is deleted. */
	return *line == '0' || strstr(line, "memfd:") || strstr(line, "(deleted)") ? IN_JIT : IN_FILE;
}

/* From /proc/self/maps. */
int mapping_of(uint64_t at, struct walk *w, uint64_t *start)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), kind = IN_NOTHING, got;
	size_t have = 0;

	*start = at;
	while (fd >= 0 && (have >= sizeof(w->text) - 1 || (got = (int)read(fd, w->text + have, sizeof(w->text) - 1 - have)) > 0)) {
		char *line = w->text, *end;

		have += (size_t)got;
		w->text[have] = 0;
		for (; (end = strchr(line, '\n')); line = end + 1) {
			*end = 0;
			got = maps_line(line, at, start);
			if (got >= 0) {
				close(fd);
				return got;
			}
		}
		have -= (size_t)(line - w->text);
		memmove(w->text, line, have);
	}
	if (fd >= 0)
		close(fd);
	return kind;
}
