/* SPDX-License-Identifier: MIT */
/*
 * What libetch reads of a module that has been loaded: its exception table, its unwind table, the
 * .eh_frame that a table is made from. The files themselves are included, so that what is
 * static in them can be asked; the dynamic linker is played here.
 */
#define ETCH_NO_MODULE /* this is libetch, and no module of its */

#include "fuzz.h"

#include <link.h>
#include <sanitizer/asan_interface.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "table/unwind_tables.h"

static uint64_t spend; /* so that no lookup is optimized away */

/* ---- the exception table ------------------------------------------------------------- */

#define RANGES 9
#define SPACE 16384u

/* A module: its code is in `headers`. */
static uint8_t loaded[2 * SPACE] __attribute__((aligned(4096)));
static ElfW(Phdr) headers[RANGES + 1];
static unsigned header_count;

static int played_iterate(int (*each)(struct dl_phdr_info *, size_t, void *), void *arg)
{
	struct dl_phdr_info info = {.dlpi_phdr = headers, .dlpi_phnum = (ElfW(Half))header_count};

	info.dlpi_addr = (ElfW(Addr))(uintptr_t)loaded;
	return each(&info, sizeof(info), arg);
}

#define dl_iterate_phdr played_iterate
#include "faults/extable.c"
#undef dl_iterate_phdr

int etch_lock(void) { return 0; }

void etch_unlock(void) {}

static uint16_t half(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static bool played_code(uint64_t at)
{
	for (unsigned i = 0; i < header_count; i++)
		if (headers[i].p_type == PT_LOAD && (headers[i].p_flags & PF_X) &&
		    at - (uint64_t)(uintptr_t)loaded - headers[i].p_vaddr < headers[i].p_memsz)
			return true;
	return false;
}

/* The number of pieces, of entries, and how; five bytes each piece; then the entries. The module has
 * all of `loaded` besides, which is data. */
static size_t module_make(const uint8_t *data, size_t size, struct etch_ex **start)
{
	unsigned ranges = data[0] % (RANGES - 1);
	size_t used = 4 + 5 * ranges, count;

	header_count = 0;
	headers[header_count++] = (ElfW(Phdr)){.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_memsz = sizeof(loaded)};
	if (size < used)
		return 0;
	for (unsigned i = 0; i < ranges; i++) {
		const uint8_t *p = data + 4 + 5 * i;

		headers[header_count++] = (ElfW(Phdr)){.p_type = PT_LOAD, .p_flags = p[4] & 7u, .p_vaddr = half(p) % (2 * SPACE),
		                                       .p_memsz = half(p + 2) % SPACE};
	}
	count = (size - used) / sizeof(**start);
	count = count > SPACE / sizeof(**start) ? SPACE / sizeof(**start) : count;
	*start = (struct etch_ex *)(void *)(loaded + (data[1] & ~3u));
	memset(loaded, 0, sizeof(loaded));
	memcpy(*start, data + used, count * sizeof(**start));
	return count;
}

/* Any number becomes a place in the module: few would be. */
static void entries_fold(struct etch_ex *e, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t at = (uint32_t)((uint8_t *)&e[i] - loaded);

		e[i].insn = (int32_t)((uint32_t)e[i].insn % (2 * SPACE) - at);
		e[i].fixup = (int32_t)((uint32_t)e[i].fixup % (2 * SPACE) - at - 4);
	}
}

/* Is this a table to be believed? */
static bool entries_good(const struct etch_ex *e, size_t count)
{
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		if (!etch_ex_valid(&e[i]))
			return false;
		if (!played_code(insn_of(&e[i])))
			continue;
		if (!played_code(fixup_of(&e[i])))
			return false;
		any = true;
	}
	return any;
}

static bool entries_have(const struct etch_ex *e, size_t count, uint64_t insn, uint64_t fixup, bool any)
{
	for (size_t i = 0; i < count; i++)
		if (insn_of(&e[i]) == insn && (any || fixup_of(&e[i]) == fixup))
			return true;
	return false;
}

/* A fault at an instruction: it goes on at a fixup of its own, in code, with at most one register
 * more that is another. */
static void fault_at(const struct etch_ex *e, size_t count, uint64_t insn)
{
	ucontext_t u, was;
	unsigned changed = 0, i;
	bool here = played_code(insn);
	int done;

	memset(&u, 0x5a, sizeof(u));
	u.uc_mcontext.gregs[REG_RIP] = (greg_t)insn;
	was = u;
	done = etch_fixup_exception(&u);
	must(done == etch_fault_expected((const void *)(uintptr_t)insn));
	must(!here || !done == !entries_have(e, count, insn, 0, true));
	for (i = 0; i < NGREG; i++)
		changed += i != REG_RIP && u.uc_mcontext.gregs[i] != was.uc_mcontext.gregs[i];
	must(done ? changed <= 1 : !changed && u.uc_mcontext.gregs[REG_RIP] == (greg_t)insn);
	if (done)
		must(entries_have(e, count, insn, (uint64_t)u.uc_mcontext.gregs[REG_RIP], false));
	must(!done || !here || played_code((uint64_t)u.uc_mcontext.gregs[REG_RIP]));
}

void fuzz_faults(const uint8_t *data, size_t size)
{
	struct etch_ex *start;
	size_t count, i;
	bool good;

	if (size < 4)
		return;
	count = module_make(data, size, &start);
	if (!count)
		return;
	if (data[2] & 1)
		entries_fold(start, count);
	good = entries_good(start, count);
	etch_extable_load_v1(start, start + count);
	if (data[2] & 2)
		etch_extable_load_v1(start, start + count);
	must(good == !!table_of(start));
	for (i = 0; i < count && i < 256; i++) {
		uint64_t insn = insn_of(&start[i]);

		for (uint64_t at = insn - 1; good && at != insn + 2; at++)
			fault_at(start, count, at);
		must(good || !etch_fault_expected((const void *)(uintptr_t)insn));
	}
	etch_extable_unload_v1(start);
	must(!(data[2] & 2) || good == !!table_of(start));
	if (data[2] & 2)
		etch_extable_unload_v1(start);
	must(!table_of(start));
	for (i = 0; i < count && i < 256; i++)
		must(!etch_fault_expected((const void *)(uintptr_t)insn_of(&start[i])));
}

/* ---- unwind tables ------------------------------------------------------------------------ */

#include "unwind/loaded.c"
#include "unwind/eh_view.c"
#include "unwind/table_copy.c"
#include "unwind/lookup.c"
#include "unwind/table_cache.c"

/* The module that is loaded, as its loader sees it: what has been read of the file, not of memory. */
static struct prepare_image played;

/* The kernel's pages: all of one can be read if a segment that can be has any of it. */
int stack_page_readable(uint64_t at)
{
	for (unsigned i = 0; i < played.phnum; i++) {
		const Elf64_Phdr *p = &played.phdr[i];
		uint64_t start = played.bias + p->p_vaddr;

		if (p->p_type == PT_LOAD && (p->p_flags & PF_R) && p->p_memsz && PAGE_DOWN(at) >= PAGE_DOWN(start) &&
		    PAGE_DOWN(at) <= PAGE_DOWN(start + p->p_memsz - 1))
			return 1;
	}
	return 0;
}

int memory_copy(void *to, uint64_t at, uint64_t size)
{
	for (uint64_t p = PAGE_DOWN(at); p < at + size; p += 4096)
		if (!stack_page_readable(p))
			return -1;
	memcpy(to, (const void *)(uintptr_t)at, size);
	return 0;
}

#define HULL (1u << 20)

/* A file's segments as they are loaded, in memory in which only what a segment that can be read has
 * may be read. False: no loader takes it, or it is large. */
static bool image_load(const uint8_t *data, size_t size, const Elf64_Ehdr *eh, struct prepare_image *im, uint8_t **memory)
{
	uint64_t low = UINT64_MAX, high = 0, capacity;
	Elf64_Phdr p;
	unsigned i;

	if (eh->e_phentsize != sizeof(p) || eh->e_phnum > 64 || eh->e_phoff > size || eh->e_phnum * sizeof(p) > size - eh->e_phoff)
		return false;
	for (i = 0; i < eh->e_phnum; i++) {
		memcpy(&p, data + eh->e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type != PT_LOAD)
			continue;
		if (p.p_filesz > p.p_memsz || p.p_offset > size || p.p_filesz > size - p.p_offset || p.p_vaddr + p.p_memsz < p.p_vaddr)
			return false;
		low = p.p_vaddr < low ? p.p_vaddr & ~(uint64_t)4095 : low;
		high = p.p_vaddr + p.p_memsz > high ? p.p_vaddr + p.p_memsz : high;
	}
	capacity = ((high - low) | 4095) + 1;
	if (low >= high || high - low > HULL || posix_memalign((void **)memory, 4096, capacity))
		return false;
	memset(*memory, 0, capacity);
	*im = (struct prepare_image){.bias = (uint64_t)(uintptr_t)*memory - low, .start = (uint64_t)(uintptr_t)*memory,
	                             .end = (uint64_t)(uintptr_t)*memory + (high - low)};
	for (i = 0; i < eh->e_phnum; i++) {
		memcpy(&p, data + eh->e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_LOAD)
			memcpy((uint8_t *)(uintptr_t)(im->bias + p.p_vaddr), data + p.p_offset, p.p_filesz);
	}
	return true;
}

/* What may be read now: bytes of segments that can be, or the pages that these are in. */
static void image_guard(const struct prepare_image *im, bool pages)
{
	uint64_t end = ((im->end - 1) | 4095) + 1;

	ASAN_POISON_MEMORY_REGION((void *)(uintptr_t)im->start, end - im->start);
	for (unsigned i = 0; i < im->phnum; i++) {
		const Elf64_Phdr *p = &im->phdr[i];
		uint64_t from = im->bias + p->p_vaddr, to = from + p->p_memsz;

		if (p->p_type != PT_LOAD || !(p->p_flags & PF_R) || !p->p_memsz)
			continue;
		if (pages) {
			from = PAGE_DOWN(from);
			to = ((to - 1) | 4095) + 1;
		}
		ASAN_UNPOISON_MEMORY_REGION((void *)(uintptr_t)from, to - from);
	}
}

static bool all_readable(uint64_t at, uint64_t size)
{
	return !__asan_region_is_poisoned((void *)(uintptr_t)at, size);
}

/* Places around the ends of segments: where loaded_readable() says so, it is. */
static void readable_ask(const struct prepare_image *im)
{
	for (unsigned i = 0; i < im->phnum; i++) {
		uint64_t start = im->bias + im->phdr[i].p_vaddr, size = im->phdr[i].p_memsz;
		const uint64_t at[] = {start - 1, start, start + 1, start + size - 1, start + size, start + size + 1};
		const uint64_t length[] = {1, 2, size - 1, size, size + 1, 1ull << 40, 0 - start, UINT64_MAX};

		for (unsigned k = 0; k < 6; k++)
			for (unsigned n = 0; n < 8; n++)
				must(!loaded_readable(im, at[k], length[n]) || !length[n] ||
				     (length[n] <= HULL && all_readable(at[k], length[n])));
		if (im->phdr[i].p_type == PT_LOAD && (im->phdr[i].p_flags & PF_R) && size <= HULL)
			must(loaded_readable(im, start, size));
	}
}

/* A table in the module: all that may be read of it is in one segment that is nothing but readable, and
 * that says so. */
static void table_ask(const struct prepare_image *im)
{
	const struct etch_unwind *u;
	const Elf64_Phdr *p;
	uint32_t n[8];
	uint64_t size = 0, at, start, end;
	unsigned index = 0;

	u = lookup_table(im, &index, &size);
	if (!u)
		return;
	at = (uint64_t)(uintptr_t)u;
	must(index < im->phnum && !(at & 7));
	p = &im->phdr[index];
	start = im->bias + p->p_vaddr;
	must(p->p_type == PT_LOAD && (p->p_flags & (PF_R | PF_W)) == PF_R && (!p->p_offset || !(p->p_flags & PF_X)));
	start += p->p_offset ? 0 : 4096; /* within the segment that begins with the ELF header */
	end = im->bias + p->p_vaddr + p->p_filesz;
	must(at >= start && at <= end && all_readable(start, sizeof(n)));
	memcpy(n, (const void *)(uintptr_t)start, sizeof(n)); /* tool/output/segment.h, in words */
	must(n[0] == 5 && n[1] == 12 && n[2] == 0x67657365 && !memcmp(&n[3], "etch", 5) && n[5] == 1 && n[6] == at - start);
	must(!n[7] == !!p->p_offset && n[7] <= end - start);
	must(size == (n[7] ? start + n[7] : end) - at);
	must(!size || all_readable(at, size));
}

/* The rows of any address. */
static void rows_ask(const struct unwind_module *m)
{
	const struct etch_orc_table *t = &m->orc;
	uint64_t step = m->text_size / 2048 + 1, i;
	int64_t row;

	for (i = 0; i < m->text_size; i += step) {
		if (m->encoding == ETCH_ENCODING_BLOCK) {
			spend += etch_block_find_in(&m->block, i)->kind;
			continue;
		}
		row = etch_orc_find(t, i);
		must(row < (int64_t)t->rows);
		spend += row < 0 ? 0u : t->orc[row].bits;
	}
}

/* One that is made of .eh_frame: what is made is a table. */
static void table_made(const struct prepare_image *im)
{
	const struct etch_unwind *u;
	struct row_list rows = {0};
	struct error e;
	uint64_t size;

	u = prepare_table(im, &size);
	if (!u)
		return;
	must(etch_unwind_valid(u, size));
	must(!unwind_block_decode((const uint8_t *)u, size, NULL, 0, &rows, &e));
	for (size_t i = 1; i < rows.count; i++)
		must(rows.rows[i].addr > rows.rows[i - 1].addr);
	row_list_free(&rows);
	prepare_table_free(u, size);
}

/* The headers in memory are where the loader has them, or they are refused. */
static bool headers_ask(const struct prepare_image *im)
{
	struct prepare_image found = {.start = im->start, .end = im->end};
	const struct identity *id;
	bool same;

	image_guard(im, true);
	if (!image_headers(&found))
		return false;
	id = loaded_identity(&found);
	must(id && id->id_size <= sizeof(id->id) && id->header.e_phnum == found.phnum);
	same = found.bias == im->bias && found.phnum == im->phnum &&
	       !memcmp(found.phdr, im->phdr, im->phnum * sizeof(*im->phdr));
	/* The library keeps them for good. */
	while (heads) {
		const struct head *h = heads;

		heads = h->next;
		sys_munmap((void *)(uintptr_t)h, sizeof(*h) + h->identity.header.e_phnum * sizeof(h->phdr[0]));
	}
	return same;
}

static void image_ask(const struct prepare_image *im)
{
	struct unwind_module capacity;
	const struct unwind_module *m;
	struct identity id;

	image_guard(im, false);
	memset(opened, 0, sizeof(opened));
	opened_count = 0;
	readable_ask(im);
	table_ask(im);
	m = image_open(im, &capacity);
	if (m)
		rows_ask(m);
	memset(&id, 0, sizeof(id));
	image_build_id(im, &id);
	must(id.id_size <= sizeof(id.id));
	spend += (uint64_t)image_sum(im, &id.sum);
	table_made(im);
}

void fuzz_module(const uint8_t *data, size_t size)
{
	uint8_t *memory = NULL;
	Elf64_Phdr *phdr;
	Elf64_Ehdr eh;

	if (size < sizeof(eh))
		return;
	memcpy(&eh, data, sizeof(eh));
	if (!image_load(data, size, &eh, &played, &memory))
		return;
	phdr = (Elf64_Phdr *)(void *)fuzz_copy(data + eh.e_phoff, eh.e_phnum * sizeof(*phdr));
	played.phdr = phdr;
	played.phnum = eh.e_phnum;
	if (headers_ask(&played))
		image_ask(&played);
	ASAN_UNPOISON_MEMORY_REGION(memory, ((played.end - played.start) | 4095) + 1);
	played.phnum = 0;
	free(phdr);
	free(memory);
}
