/* SPDX-License-Identifier: MIT */
/*
 * walks_stacks.c: walks on other stacks than the thread's: for walks.c.
 */
#include "walks.h"

static ucontext_t home, other;

static void coroutine(void)
{
	want = ETCH_UNWIND_END;
	frames(10);
	frames_vla(5);
}

static void on_stack(char *stack, size_t size)
{
	must(!getcontext(&other));
	other.uc_stack.ss_sp = stack;
	other.uc_stack.ss_size = size;
	other.uc_link = &home;
	makecontext(&other, coroutine, 0);
	must(!swapcontext(&home, &other));
}

/* Calls a function on another stack, with its own rsp in rbx, as OCaml 5 calls C. */
__asm__(".text\n"
        ".type\ton_other, @function\n"
        "on_other:\t.cfi_startproc\n\t"
        "pushq\t%rbx\n\t"
        ".cfi_def_cfa_offset 16\n\t"
        ".cfi_offset %rbx, -16\n\t"
        "movq\t%rsp, %rbx\n\t"
        ".cfi_def_cfa_register %rbx\n\t"
        "movq\t%rdi, %rsp\n\t"
        "call\t*%rsi\n\t"
        "movq\t%rbx, %rsp\n\t"
        ".cfi_def_cfa_register %rsp\n\t"
        "popq\t%rbx\n\t"
        ".cfi_def_cfa_offset 8\n\t"
        "ret\n\t"
        ".cfi_endproc\n\t"
        ".size\ton_other, .-on_other\n");
extern void on_other(char *sp, void (*call)(void)) __attribute__((visibility("hidden")));

static char *upper;

/* Does the main program have .eh_frame_hdr, by which registers are recovered? A static one at a fixed address has none. */
static int has_index(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size, (void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
			return 1;
	return -1; /* the first one is the main program */
}

static void on_upper(void)
{
	void *ips[MOST];
	int status, n = etch_backtrace_from(NULL, ips, MOST, &status);

	if (dl_iterate_phdr(has_index, NULL) > 0)
		must(status == ETCH_UNWIND_END && n >= 6);
	else
		must(status == ETCH_UNWIND_REGISTER && n == 2);
}

static void on_lower(void)
{
	on_other(upper, on_upper);
	BARRIER;
}

/* From a lower stack to a higher one: the caller's frame lies below. */
static void check_register(void)
{
	size_t size = 1 << 18;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(p != MAP_FAILED);
	upper = p + size;
	on_other(p + size / 2, on_lower);
	munmap(p, size);
}

void case_coroutine(void)
{
	size_t size = 1 << 17;

	bottom = with_check;
	name = "coroutine";
	check_register();
	for (int i = 0; i < 20; i++) {
		char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		must(p != MAP_FAILED);
		on_stack(p, size);
		munmap(p, size);
	}
	must(etch_unwind_strict(1) == 0);
	places();
	/* A smaller one in the place of a larger, twice over. */
	for (int i = 0; i < 20; i++) {
		char *p = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		must(p != MAP_FAILED);
		on_stack(p, 2 * size);
		munmap(p + size, size);
		on_stack(p, size);
		munmap(p, size);
	}
	must(etch_unwind_strict(0) == 1);
}
