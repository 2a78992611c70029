/* SPDX-License-Identifier: MIT */
/*
 * copied.c: variables that the program has copied from a shared object (R_X86_64_COPY): the program's copy of an
 * etched object is plain memory.
 */
#include <string.h>

#include "patch/internal.h"

/* The address that the d_ptr of an entry of the dynamic section stands for. glibc's dynamic linker adds the bias to
 * most of them in place; the start-up code of a static PIE, and musl, do not. */
static uint64_t dynamic_pointer(uint64_t value, uint64_t bias, uint64_t start)
{
	return value < start ? value + bias : value;
}

struct dynamic {
	uint64_t rela, rela_size, symtab, strtab, strsize, gnu_hash, hash;
};

static void dynamic_read(struct dynamic *d, uint64_t at, uint64_t bias, uint64_t start)
{
	memset(d, 0, sizeof(*d));
	for (const ElfW(Dyn) *p = (const ElfW(Dyn) *)(uintptr_t)at; p && p->d_tag != DT_NULL; p++) {
		uint64_t v = dynamic_pointer(p->d_un.d_ptr, bias, start);

		switch (p->d_tag) {
		case DT_RELA: d->rela = v; break;
		case DT_RELASZ: d->rela_size = p->d_un.d_val; break;
		case DT_SYMTAB: d->symtab = v; break;
		case DT_STRTAB: d->strtab = v; break;
		case DT_STRSZ: d->strsize = p->d_un.d_val; break;
		case DT_GNU_HASH: d->gnu_hash = v; break;
		case DT_HASH: d->hash = v; break;
		}
	}
}

/* The number of dynamic symbols, derived from the hash table, because it is not stored anywhere. */
static uint64_t dynamic_symbols(const struct dynamic *d)
{
	const uint32_t *h;
	const uint32_t *bucket, *chain;
	uint32_t last = 0;

	if (d->hash)
		return ((const uint32_t *)(uintptr_t)d->hash)[1];
	if (!d->gnu_hash)
		return 0;
	h = (const uint32_t *)(uintptr_t)d->gnu_hash; /* nbuckets, symoffset, bloom_size, shift */
	bucket = h + 4 + (size_t)h[2] * 2;
	chain = bucket + h[0];
	for (uint32_t i = 0; i < h[0]; i++)
		if (bucket[i] > last)
			last = bucket[i];
	if (last < h[1])
		return h[1];
	while (!(chain[last - h[1]] & 1))
		last++;
	return (uint64_t)last + 1;
}

static int in_etched(const struct module *m, uint64_t at)
{
	if (!m->bad && module_object(m, at))
		return 1;
	for (int i = 0; i < 3; i++)
		if (at >= m->etched[i].start && at < m->etched[i].stop)
			return 1;
	return 0;
}

static int module_defines(const struct module *m, const char *name)
{
	struct dynamic d;
	const ElfW(Sym) * s;

	if (!m->image.dynamic)
		return 0;
	dynamic_read(&d, m->image.dynamic, m->image.bias, m->image.start);
	s = (const ElfW(Sym) *)(uintptr_t)d.symtab;
	for (uint64_t i = 1, n = dynamic_symbols(&d); s && d.strtab && i < n; i++)
		if (s[i].st_shndx != SHN_UNDEF && s[i].st_name < d.strsize && in_etched(m, m->image.bias + s[i].st_value) &&
		    !strcmp((const char *)(uintptr_t)d.strtab + s[i].st_name, name))
			return 1;
	return 0;
}

/*
 * May an address be in a copy? The program's relocations do not change, and a large program has so many of them that
 * it takes milliseconds to read them, while a setter of any variable, etched or not, asks each time. So `bounds` is
 * found once; threads that find it at the same time find the same values.
 */
static int may_be_copied(const struct dynamic *d, uint64_t at)
{
	static struct {
		uint64_t start, stop;
		int known;
	} bounds;
	uint64_t start = UINT64_MAX, stop = 0;
	const ElfW(Rela) *r = (const ElfW(Rela) *)(uintptr_t)d->rela;

	if (!__atomic_load_n(&bounds.known, __ATOMIC_ACQUIRE)) {
		for (uint64_t i = 0; r && d->symtab && i < d->rela_size / sizeof(*r); i++) {
			const ElfW(Sym) *s = (const ElfW(Sym) *)(uintptr_t)d->symtab + ELF64_R_SYM(r[i].r_info);
			uint64_t to = module_program.bias + r[i].r_offset;

			if (ELF64_R_TYPE(r[i].r_info) != R_X86_64_COPY)
				continue;
			start = to < start ? to : start;
			stop = to + s->st_size > stop ? to + s->st_size : stop;
		}
		__atomic_store_n(&bounds.start, start, __ATOMIC_RELAXED);
		__atomic_store_n(&bounds.stop, stop, __ATOMIC_RELAXED);
		__atomic_store_n(&bounds.known, r && d->symtab, __ATOMIC_RELEASE);
	}
	return at >= __atomic_load_n(&bounds.start, __ATOMIC_RELAXED) &&
	       at < __atomic_load_n(&bounds.stop, __ATOMIC_RELAXED);
}

int module_copied(uint64_t at, uint64_t size)
{
	struct dynamic d;
	const ElfW(Rela) * r;

	dynamic_read(&d, module_program.dynamic, module_program.bias, module_program.start);
	if (!may_be_copied(&d, at))
		return 0;
	r = (const ElfW(Rela) *)(uintptr_t)d.rela;
	for (uint64_t i = 0; r && d.symtab && d.strtab && i < d.rela_size / sizeof(*r); i++) {
		const ElfW(Sym) * s;
		uint64_t to = module_program.bias + r[i].r_offset;

		if (ELF64_R_TYPE(r[i].r_info) != R_X86_64_COPY)
			continue;
		s = (const ElfW(Sym) *)(uintptr_t)d.symtab + ELF64_R_SYM(r[i].r_info);
		if (at < to || at - to >= s->st_size || s->st_name >= d.strsize)
			continue;
		for (struct module *m = module_list; m; m = m->next)
			if (!m->image.program && module_defines(m, (const char *)(uintptr_t)d.strtab + s->st_name))
				return size <= s->st_size - (at - to) ? 1 : -1;
	}
	return 0;
}
