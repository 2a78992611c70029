/* SPDX-License-Identifier: MIT */
/*
 * lib/unwind/prepare.c on a library as it is loaded: dlopens FILE and prints the rows of
 * its table, found by a lookup at every address, as `etch inspect orc` would.
 *
 *   cfi_prepare FILE          FILE "": the program itself; "vdso": the kernel's
 *   cfi_prepare -m FILE       reads return addresses, one a line, in hex; prints those
 *                             for which the map says other than the rows, and counts
 *   cfi_prepare -i FILE       the same addresses, without a table, by what a walk would fill in of
 *                             a map (lib/unwind/cfi_map.c): address, CFA, rbp of those that it holds
 *   cfi_prepare -t FILE       how long it takes, and how large it is (not for a test)
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "unwind/cfi_map.h"

static const char *const names[16] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                      "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"};

static bool same_file(const char *a, const char *b)
{
	struct stat x, y;

	if (!*a || !*b || !strcmp(b, "vdso"))
		return (!*a && !*b) || (!strcmp(b, "vdso") && strstr(a, "vdso"));
	return !stat(a, &x) && !stat(b, &y) && x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

struct wanted {
	const char *path;
	struct prepare_image im;
};

static int find(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct wanted *w = arg;

	(void)size;
	if (!same_file(info->dlpi_name, w->path))
		return 0;
	w->im.bias = info->dlpi_addr;
	w->im.phdr = info->dlpi_phdr;
	w->im.phnum = info->dlpi_phnum;
	w->im.start = UINT64_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + p->p_vaddr;

		if (p->p_type != PT_LOAD)
			continue;
		w->im.start = start < w->im.start ? start : w->im.start;
		w->im.end = start + p->p_memsz > w->im.end ? start + p->p_memsz : w->im.end;
	}
	return 1;
}

/* "cfa-8", "cfa-24", or a register. */
static const char *ra_text(const struct etch_rule *r)
{
	static char at[24];

	if (r->ra & ETCH_RA_REG)
		return names[r->ra & 15];
	snprintf(at, sizeof(at), "cfa%+d", r->ra == ETCH_RA_SLOT ? r->cfa_add : -8);
	return at;
}

static void row_print(uint64_t from, uint64_t to, const struct etch_rule *r)
{
	static const char *const kinds[] = {"undef", "call", "signal", "end"};
	const char *reg = names[r->cfa & 15];

	if (r->kind == ETCH_RULE_UNDEF)
		return;
	printf("%" PRIx64 "\t%" PRIx64 "\t", from, to - from);
	if (r->kind == ETCH_RULE_END && !r->cfa) {
		printf("undef\tundef\tundef\tend\tcfi\n");
		return;
	}
	if (r->cfa & ETCH_CFA_INDEX)
		printf("*(rsp+8*%s%+d)%+d\t", reg, r->cfa_off, r->cfa_add);
	else if (r->cfa & ETCH_CFA_DEREF)
		printf("*(%s%+d)%+d\t", reg, r->cfa_off, r->cfa_add);
	else
		printf("%s%+d\t", reg, r->cfa_off);
	if (r->bp == ETCH_BP_SAME || r->bp == ETCH_BP_UNDEF)
		printf("%s", r->bp ? "undef" : "same");
	else if (r->bp == ETCH_BP_CFA)
		printf("cfa%+d", r->bp_off);
	else
		printf("*(%s%+d)", r->bp == ETCH_BP_RBP ? "rbp" : "rsp", r->bp_off);
	printf("\t%s\t%s\tcfi\n", ra_text(r), kinds[r->kind]);
}

static int map_check(const struct etch_unwind *u)
{
	unsigned long asked = 0, direct = 0;
	struct etch_block t;
	char line[64];

	etch_block_open(u, &t);
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t ra = strtoull(line, NULL, 16);
		struct etch_map_rule m;
		struct etch_rule rule;

		asked++;
		if (!etch_map_find_in(&t, ra - u->text, &m))
			continue;
		direct++;
		etch_map_rule_unpack(&m, &rule);
		if (!etch_rule_equal(&rule, etch_block_find_in(&t, ra - u->text - 1)))
			printf("%" PRIx64 "\n", ra);
	}
	printf("asked %lu direct %lu\n", asked, direct);
	return 0;
}

static int in_place_print(const struct prepare_image *im)
{
	struct unwind_module m = {0};
	struct etch_map_rule r;
	struct in_place in;
	char line[64];

	if (!in_place_open(im, NULL, &in, &m) || !in.map)
		return 4;
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t ra = strtoull(line, NULL, 16) + im->bias;
		uint32_t code;

		in_place_meet(&m, ra);
		code = in.map->bytes[(ra - m.text) >> 6];
		if (!code)
			return 5;
		if (code >= ETCH_MAP_CODES)
			continue;
		if (code < ETCH_MAP_STEPS)
			r = (struct etch_map_rule){(int32_t)etch_map_step_cfa(code), (int16_t)-(int)etch_map_step_bp(code),
			                           code == ETCH_MAP_RBP_FRAME ? ETCH_MAP_RBP : 0, 0};
		else
			r = in.map->palette[code - ETCH_MAP_STEPS];
		printf("%" PRIx64 "\t%s%+d\t", ra - im->bias, r.flags & ETCH_MAP_RBP ? "rbp" : "rsp", r.cfa);
		printf(r.bp ? "cfa%+d\n" : "same\n", r.bp);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct wanted w = {argv[argc - 1], {0}};
	const struct etch_unwind *u;
	struct timespec a, b;
	uint64_t size, i, from = 0;
	struct etch_rule last;

	if (argc < 2)
		return 2;
	if (*w.path && strcmp(w.path, "vdso") && !dlopen(w.path, RTLD_LAZY)) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	if (!dl_iterate_phdr(find, &w))
		return 3;
	if (argc == 3 && !strcmp(argv[1], "-i"))
		return in_place_print(&w.im);
	clock_gettime(CLOCK_MONOTONIC, &a);
	u = prepare_table(&w.im, &size);
	clock_gettime(CLOCK_MONOTONIC, &b);
	if (!u)
		return 4;
	if (!etch_unwind_header_valid(u, size) || !etch_unwind_valid(u, size))
		return 5;
	if (argc == 3 && !strcmp(argv[1], "-m"))
		return map_check(u);
	if (argc == 3) {
		printf("%u rows, %" PRIu64 " bytes, %.2f ms\n", u->rows, size,
		       (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6);
		return 0;
	}
	printf("address\tsize\tcfa\tbp\tra\tkind\tsource\n");
	last = *etch_block_find(u, 0);
	for (i = 1; i <= u->text_size; i++) {
		const struct etch_rule *r = etch_block_find(u, i);

		if (i < u->text_size && etch_rule_equal(r, &last))
			continue;
		row_print(u->text + from, u->text + i, &last);
		last = *r;
		from = i;
	}
	prepare_table_free(u, size);
	return 0;
}
