/* SPDX-License-Identifier: MIT */
/*
 * loaded.h: the loaded modules (loaded.c). Everything except loaded_refresh() is async-signal-safe.
 */
#ifndef ETCH_LIB_UNWIND_LOADED_H
#define ETCH_LIB_UNWIND_LOADED_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* A loaded module. */
struct prepare_image {
	uint64_t bias;       /* run-time address minus link-time address */
	uint64_t start, end; /* run-time range that spans its PT_LOADs */
	const Elf64_Phdr *phdr;
	unsigned phnum;
	bool kept; /* phdr is a copy of the headers of a module that may be unloaded at any time: loaded_identity() */
};

/* Identifies the file that a module was loaded from. */
struct identity {
	Elf64_Ehdr header;
	Elf64_Phdr note; /* the PT_NOTE with the build-id; all zero if there is none */
	uint32_t note_index, id_offset, id_size;
	uint8_t id[32];
	uint64_t sum; /* without a build-id: checksum of program headers and .eh_frame */
};

/* Returns the identity of the file of a module that is `kept`, as it was read with the module's headers; null for any
 * other module. */
const struct identity *loaded_identity(const struct prepare_image *im);

/*
 * What walks have copied of a module that is `kept`, because its own memory may go away during a walk. It belongs to
 * the file, not to the place where that is mapped, and is never freed. Each pointer is set by compare and exchange.
 */
struct copies {
	const struct table_copy *table; /* table_copy.h */
	struct frames_copy *frames;     /* eh_view.h */
};
struct copies *loaded_copies(const struct prepare_image *im);
/* Is a module that is `kept` still mapped where it was? Reads its headers again. If it is not, the bytes that a caller
 * has just copied from its memory may be those of another module. */
bool loaded_still(const struct prepare_image *im);
/* Stores a module's build-id note (gABI "Note Section") in *id, whose id_size stays as it is if there is none.
 * Async-signal-safe. */
void image_build_id(const struct prepare_image *im, struct identity *id);

/* Finds the module of an address. Returns 1, or 0. */
int loaded_image(uint64_t at, struct prepare_image *im);
/* Is this the main program, which is never unloaded? */
bool loaded_is_program(const struct prepare_image *im);

/*
 * A module that is never unloaded as long as this library is loaded: the mapping at its place stays. `module` is the
 * result of lookup_module() (lookup.c) for the module; null if there was no lookup yet, or its result is not kept.
 */
struct unwind_module;
struct permanent {
	uint64_t start, size;
	const struct unwind_module *module;
};

#define PERMANENT 32
extern struct permanents {
	_Alignas(64) uint64_t lo, hi;       /* range that spans all elements of `at` but the first; modules that are loaded
	                                     * later mostly lie outside it */
	struct permanent at[PERMANENT + 1]; /* the program comes first; an element of size 0 ends the list */
} loaded_permanents;

/* The permanent module of an address, or null. */
static inline struct permanent *permanent_at(uint64_t at)
{
	struct permanent *p = loaded_permanents.at;
	uint64_t size = __atomic_load_n(&p->size, __ATOMIC_ACQUIRE);

	if (at - p->start < size)
		return p;
	if (at < __atomic_load_n(&loaded_permanents.lo, __ATOMIC_RELAXED) ||
	    at >= __atomic_load_n(&loaded_permanents.hi, __ATOMIC_ACQUIRE))
		return NULL;
	while ((size = __atomic_load_n(&p->size, __ATOMIC_ACQUIRE)) && at - p->start >= size)
		p++;
	return size ? p : NULL;
}

/* The element of loaded_permanents for the same module as *im, or null if that is not permanent. */
struct permanent *loaded_is_permanent(const struct prepare_image *im);

/* The path of the file that the module of an address was loaded from; null if it is unknown, or for the program.
 * Valid while the module is loaded. */
const char *loaded_path(uint64_t at);
/* The name of that file as the program has given it: perhaps relative to a directory, "" for the program. */
const char *loaded_name(uint64_t at);

/*
 * The modules whose headers this thread has read since it began its last walk. That a module is loaded, as the
 * dynamic linker says, holds only for a moment: another thread may unload it, and map something else in its place. So
 * each walk asks again. A signal handler that finds `busy` set adds none.
 */
#define CONFIRMED 4
struct confirmed {
	uint32_t count, busy;
	struct prepare_image image[CONFIRMED];
};
extern __thread struct confirmed loaded_confirmed __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Forgets which modules this thread has confirmed, so that their headers are read again. */
static inline __attribute__((always_inline)) void loaded_forget(void) { loaded_confirmed.count = 0; }

/* Is the whole range inside the module? */
static inline int loaded_inside(const struct prepare_image *im, uint64_t at, uint64_t size)
{
	return at >= im->start && at <= im->end && size <= im->end - at;
}

/* The dynamic section of a module in memory; null if it has none. */
const Elf64_Dyn *loaded_dynamic(const struct prepare_image *im);

/* The address of a table that a dynamic section names. glibc adds the load bias to these entries; other C libraries
 * leave them as offsets in the file. */
static inline uint64_t dynamic_address(const struct prepare_image *im, uint64_t value)
{
	return loaded_inside(im, value, 1) ? value : im->bias + value;
}

/* The tables that a dynamic section names, as it has them. Nothing is checked; what the section does not have is 0. */
struct dynamic_tables {
	uint64_t symbols, strings, strings_size, gnu_hash;
	struct {
		uint64_t at, size;
	} plt, rela; /* DT_JMPREL, DT_RELA */
};

static inline struct dynamic_tables dynamic_tables_read(const struct prepare_image *im)
{
	struct dynamic_tables t = {0};

	for (const Elf64_Dyn *d = loaded_dynamic(im); d && d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_SYMTAB: t.symbols = d->d_un.d_ptr; break;
		case DT_STRTAB: t.strings = d->d_un.d_ptr; break;
		case DT_STRSZ: t.strings_size = d->d_un.d_val; break;
		case DT_GNU_HASH: t.gnu_hash = d->d_un.d_ptr; break;
		case DT_JMPREL: t.plt.at = d->d_un.d_ptr; break;
		case DT_PLTRELSZ: t.plt.size = d->d_un.d_val; break;
		case DT_RELA: t.rela.at = d->d_un.d_ptr; break;
		case DT_RELASZ: t.rela.size = d->d_un.d_val; break;
		default: break;
		}
	return t;
}

/* Is the whole range inside one readable segment of the module? */
int loaded_readable(const struct prepare_image *im, uint64_t at, uint64_t size);
/* Fills *im from an entry of dl_iterate_phdr(3); start >= end: no segment is mapped. */
void loaded_from(const struct dl_phdr_info *info, struct prepare_image *im);
/* Takes a new snapshot of the loaded modules, which is used where _dl_find_object is missing. */
void loaded_refresh(void);

#endif
