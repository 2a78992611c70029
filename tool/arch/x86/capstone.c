/* SPDX-License-Identifier: MIT */
/*
 * Loads the library Capstone with dlopen() at the first cs_open(), and provides its functions as wrappers. If etch were
 * linked to it, about 77,000 relocations of its tables would double the start time of etch, although a file with
 * nothing to rewrite never needs the second decoder. The static etch (`make static`) contains Capstone, without
 * relocations.
 */
#include <capstone/capstone.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/memory.h"

#define TEXT(x)  TEXT_(x)
#define TEXT_(x) #x
#define SONAME   "libcapstone.so." TEXT(CS_API_MAJOR) /* of the version that the header belongs to */

/* Memory functions for Capstone that never return null. If an allocation fails, Capstone dereferences null, or reports
 * that there is no instruction, which would be a wrong second opinion. */
static void *memory_new(size_t size) { return mem_alloc(size, 1); }

static void *memory_resized(void *p, size_t size) { return mem_resize(p, size, 1); }

static cs_opt_mem memory_functions = {memory_new, mem_zero, memory_resized, free, vsnprintf};

#ifdef ETCH_STATIC

__attribute__((constructor)) static void memory_set(void)
{
	cs_option(0, CS_OPT_MEM, (size_t)(uintptr_t)&memory_functions);
}

#else

static struct {
	__typeof__(&cs_open) open;
	__typeof__(&cs_close) close;
	__typeof__(&cs_option) option;
	__typeof__(&cs_disasm) disasm;
	__typeof__(&cs_disasm_iter) disasm_iter;
	__typeof__(&cs_malloc) malloc;
	__typeof__(&cs_free) free;
	__typeof__(&cs_reg_name) reg_name;
} capstone;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *function(void *library, const char *name)
{
	void *at = library ? dlsym(library, name) : NULL;

	if (at)
		return at;
	/* Does not use stdio's stderr, which may be that of a worker (workers.h) whose output is discarded. */
	dprintf(STDERR_FILENO, "etch: cannot load " SONAME ", the second decoder: %s\n", dlerror());
	_exit(2);
}

static void load(void)
{
	void *library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);

	capstone.open = function(library, "cs_open");
	capstone.close = function(library, "cs_close");
	capstone.option = function(library, "cs_option");
	capstone.disasm = function(library, "cs_disasm");
	capstone.disasm_iter = function(library, "cs_disasm_iter");
	capstone.malloc = function(library, "cs_malloc");
	capstone.free = function(library, "cs_free");
	capstone.reg_name = function(library, "cs_reg_name");
	capstone.option(0, CS_OPT_MEM, (size_t)(uintptr_t)&memory_functions);
}

cs_err cs_open(cs_arch arch, cs_mode mode, csh *handle)
{
	pthread_once(&once, load);
	return capstone.open(arch, mode, handle);
}

/* The functions below take a handle, so cs_open() has already loaded the library. */
cs_err cs_close(csh *handle) { return capstone.close(handle); }

cs_err cs_option(csh handle, cs_opt_type type, size_t value) { return capstone.option(handle, type, value); }

size_t cs_disasm(csh handle, const uint8_t *code, size_t code_size, uint64_t address, size_t count, cs_insn **insn)
{
	return capstone.disasm(handle, code, code_size, address, count, insn);
}

void cs_free(cs_insn *insn, size_t count) { capstone.free(insn, count); }

bool cs_disasm_iter(csh handle, const uint8_t **code, size_t *size, uint64_t *address, cs_insn *insn)
{
	return capstone.disasm_iter(handle, code, size, address, insn);
}

cs_insn *cs_malloc(csh handle) { return capstone.malloc(handle); }

const char *cs_reg_name(csh handle, unsigned int reg) { return capstone.reg_name(handle, reg); }

#endif
