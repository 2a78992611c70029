/* SPDX-License-Identifier: MIT */
/* framehop, a Rust crate: framehop.rs is its C interface. Only this program is a
 * module of it, which is all that the tree needs. */
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "walk.h"

void hop_module(uint64_t lo, uint64_t hi, uint64_t base, const uint8_t *eh_frame, uint64_t eh_frame_size,
                const uint8_t *hdr, uint64_t hdr_size);
int hop_walk(uint64_t ip, uint64_t sp, uint64_t bp, void **ips, int max);

static int module_add(struct dl_phdr_info *info, size_t size, void *arg)
{
	const uint8_t *hdr = NULL, *frame;
	uint64_t lo = UINT64_MAX, hi = 0, hdr_size = 0, frame_limit = 0;
	int i;

	(void)size;
	(void)arg;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_GNU_EH_FRAME) {
			hdr = (const uint8_t *)(info->dlpi_addr + p->p_vaddr);
			hdr_size = p->p_memsz;
		}
		if (p->p_type == PT_LOAD) {
			lo = info->dlpi_addr + p->p_vaddr < lo ? info->dlpi_addr + p->p_vaddr : lo;
			hi = info->dlpi_addr + p->p_vaddr + p->p_memsz;
		}
	}
	if (!hdr || hdr[1] != 0x1b) { /* DW_EH_PE_pcrel | sdata4, which linkers write */
		fprintf(stderr, "no usable .eh_frame_hdr\n");
		exit(2);
	}
	frame = hdr + 4 + *(const int32_t *)(hdr + 4);
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t at = (uint64_t)(uintptr_t)frame - info->dlpi_addr;

		if (p->p_type == PT_LOAD && at >= p->p_vaddr && at < p->p_vaddr + p->p_filesz)
			frame_limit = p->p_vaddr + p->p_filesz - at;
	}
	hop_module(lo, hi, info->dlpi_addr, frame, frame_limit, hdr, hdr_size);
	return 1; /* the program itself comes first */
}

void walk_prepare(void)
{
	dl_iterate_phdr(module_add, NULL);
}

__attribute__((noinline)) int walk(void **ips, int max)
{
	uint64_t ip, sp, bp;

	__asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2" : "=&r"(ip), "=&r"(sp), "=&r"(bp));
	return hop_walk(ip, sp, bp, ips, max);
}
