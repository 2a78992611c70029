/* SPDX-License-Identifier: MIT */
/* Types from DWARF (types.h). */
#include "elf/types.h"
#include "elf/lines_internal.h"
#include "support/memory.h"
#include "support/search.h"
#include "support/vector.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

/* Typedefs and qualifiers around a type: a hostile file can make a circle of them. */
#define PEELED_MOST 64u
/* Members of one struct, and DIEs looked at in one file: the same. */
#define MEMBERS_MOST 65536u
#define DIES_MOST    (1u << 24)

/* The type of a DIE without typedefs and qualifiers. */
static bool type_of(Dwarf_Die *die, Dwarf_Die *type)
{
	Dwarf_Attribute attr;
	unsigned i;

	for (i = 0; i < PEELED_MOST; i++) {
		if (!dwarf_formref_die(dwarf_attr_integrate(die, DW_AT_type, &attr), type))
			return false;
		switch (dwarf_tag(type)) {
		case DW_TAG_typedef:
		case DW_TAG_const_type:
		case DW_TAG_volatile_type:
		case DW_TAG_atomic_type: die = type; break;
		default: return true;
		}
	}
	return false;
}

static bool is_scalar(Dwarf_Die *type)
{
	switch (dwarf_tag(type)) {
	case DW_TAG_base_type:
	case DW_TAG_pointer_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type: return true;
	default: return false;
	}
}

static enum member_kind kind_of(Dwarf_Die *type)
{
	Dwarf_Die element;

	if (is_scalar(type))
		return MEMBER_SCALAR;
	return dwarf_tag(type) == DW_TAG_array_type && type_of(type, &element) && is_scalar(&element) ? MEMBER_ARRAY
	                                                                                              : MEMBER_STRUCT;
}

/* Is the type an array, or has it one inside? `depth`: of the structs around it. */
static bool has_array(Dwarf_Die *type, unsigned depth)
{
	Dwarf_Die die, inner;
	unsigned most = MEMBERS_MOST;
	int tag = dwarf_tag(type);

	if (is_scalar(type))
		return false;
	if ((tag != DW_TAG_structure_type && tag != DW_TAG_class_type) || depth > 8)
		return true; /* an array, a union, or what is not known */
	if (dwarf_child(type, &die))
		return false;
	do {
		tag = dwarf_tag(&die);
		if ((tag == DW_TAG_member || tag == DW_TAG_inheritance) &&
		    (!most-- || !type_of(&die, &inner) || has_array(&inner, depth + 1)))
			return true;
	} while (!dwarf_siblingof(&die, &die));
	return false;
}

static bool constant(Dwarf_Die *die, unsigned name, Dwarf_Word *value)
{
	Dwarf_Attribute attr;

	return dwarf_formudata(dwarf_attr(die, name, &attr), value) == 0;
}

/* The bytes of a member of a struct of `size` bytes. False: DWARF does not say, as of one that is virtual. */
static bool member_read(Dwarf_Die *die, uint64_t size, struct member *m)
{
	Dwarf_Word off = 0, bits, bytes;
	Dwarf_Die type;

	if (!type_of(die, &type))
		return false;
	m->kind = kind_of(&type);
	m->indexed = has_array(&type, 0);
	if (constant(die, DW_AT_bit_size, &bits)) {
		if (constant(die, DW_AT_data_bit_offset, &off)) {
			m->off = off / 8;
			m->size = (off + bits + 7) / 8 - m->off;
			return off / 8 < size && bits && m->size <= size - m->off;
		}
		/* DWARF 3: within the storage unit, which stands for it. */
	}
	if (!constant(die, DW_AT_data_member_location, &off) || dwarf_aggregate_size(&type, &bytes))
		return false;
	m->off = off;
	m->size = bytes;
	return off < size && bytes <= size - off;
}

static int by_offset(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	return x->size > y->size ? -1 : x->size < y->size;
}

/* Bit-fields that share bytes become one member. */
static void members_merge(struct members *m)
{
	size_t i, n = 0;

	for (i = 0; i < m->count; i++) {
		struct member *last = n ? &m->list[n - 1] : NULL;

		if (!last || m->list[i].off >= last->off + last->size) {
			m->list[n++] = m->list[i];
			continue;
		}
		if (m->list[i].off + m->list[i].size > last->off + last->size)
			last->size = m->list[i].off + m->list[i].size - last->off;
		last->kind = m->list[i].kind > last->kind ? m->list[i].kind : last->kind;
		last->indexed |= m->list[i].indexed;
		free(m->list[i].name);
	}
	m->count = n;
}

static char *name_copy(const char *name) { return mem_copy(name, strlen(name) + 1); }

static void struct_read(Dwarf_Die *type, uint64_t size, struct members *out)
{
	Dwarf_Word bytes;
	Dwarf_Die die;
	unsigned most = MEMBERS_MOST;

	if ((dwarf_tag(type) != DW_TAG_structure_type && dwarf_tag(type) != DW_TAG_class_type) ||
	    dwarf_aggregate_size(type, &bytes) || bytes != size || dwarf_child(type, &die))
		return;
	do {
		int tag = dwarf_tag(&die);
		struct member m = {0};
		Dwarf_Attribute attr;
		const char *name;

		if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) || dwarf_attr(&die, DW_AT_external, &attr))
			continue; /* a static member is a variable of its own */
		if (!most-- || !member_read(&die, size, &m)) {
			members_free(out);
			return;
		}
		if (!m.size)
			continue; /* a flexible array */
		name = dwarf_diename(&die);
		m.name = name_copy(name && *name ? name : tag == DW_TAG_inheritance ? "(base)" : "(unnamed)");
		mem_room(&out->list, &out->room, out->count, sizeof(*out->list));
		out->list[out->count++] = m;
	} while (!dwarf_siblingof(&die, &die));
	if (out->count)
		qsort(out->list, out->count, sizeof(*out->list), by_offset);
	members_merge(out);
}

/* Is the variable of this DIE at the address? */
static bool is_at(Dwarf_Die *die, uint64_t addr)
{
	Dwarf_Attribute attr, of;
	Dwarf_Addr at;
	Dwarf_Op *op;
	size_t n;

	if (dwarf_tag(die) != DW_TAG_variable || !dwarf_attr(die, DW_AT_location, &attr) ||
	    dwarf_getlocation(&attr, &op, &n) || n != 1)
		return false;
	if (op[0].atom == DW_OP_addr)
		return op[0].number == addr;
	return (op[0].atom == DW_OP_addrx || op[0].atom == DW_OP_GNU_addr_index) &&
	       !dwarf_getlocation_attr(&attr, op, &of) && !dwarf_formaddr(&of, &at) && at == addr;
}

/* Looks for the variable among the children of a unit, and of its namespaces. */
static bool variable_find(Dwarf_Die *parent, uint64_t addr, unsigned depth, unsigned *most, Dwarf_Die *found)
{
	Dwarf_Die die;

	if (depth > 16 || dwarf_child(parent, &die))
		return false;
	do {
		if (!(*most)--)
			return false;
		if (is_at(&die, addr)) {
			*found = die;
			return true;
		}
		if (dwarf_tag(&die) == DW_TAG_namespace && variable_find(&die, addr, depth + 1, most, found))
			return true;
	} while (*most && !dwarf_siblingof(&die, &die));
	return false;
}

void members_find(struct lines *l, uint64_t addr, uint64_t size, struct members *out)
{
	Dwfl_Module *module = l ? lines_module(l) : NULL;
	unsigned most = DIES_MOST;
	Dwarf_Die *unit = NULL, die, type;
	Dwarf_Addr bias;

	memset(out, 0, sizeof(*out));
	while (module && most && (unit = dwfl_module_nextcu(module, unit, &bias)) != NULL)
		if (variable_find(unit, addr, 0, &most, &die)) {
			if (type_of(&die, &type))
				struct_read(&type, size, out);
			return;
		}
}

void members_free(struct members *m)
{
	size_t i;

	for (i = 0; i < m->count; i++)
		free(m->list[i].name);
	free(m->list);
	memset(m, 0, sizeof(*m));
}

const struct member *member_at(const struct members *m, uint64_t off)
{
	size_t i;

	for (i = 0; i < m->count; i++)
		if (off >= m->list[i].off && off - m->list[i].off < m->list[i].size)
			return &m->list[i];
	return NULL;
}

/* ---- functions ------------------------------------------------------------------------ */

/* Ranges of code that are read: the DIEs of a hostile file can share one list of ranges. */
#define RANGES_MOST (1u << 22)
#define WORDS_MOST  6 /* arguments in general registers: psABI 3.2.3 */

struct typed_code {
	Dwarf_Addr start, end; /* libdwfl's addresses */
	int8_t words;          /* of arguments, at `start`; -1: not known */
	uint8_t returned;      /* the most words in general registers of what it returns */
};

struct function_types {
	struct lines *l;
	struct typed_code *list; /* by start */
	size_t count, room;
	uint64_t *global; /* libdwfl's addresses of functions with global symbols, sorted */
	size_t global_count;
	unsigned dies_most, ranges_most;
};

/* The most general registers that a value of this type takes: none in a vector register, one for its address. */
static int words_of(Dwarf_Die *type)
{
	Dwarf_Word size, encoding;

	if (dwarf_tag(type) == DW_TAG_base_type && constant(type, DW_AT_encoding, &encoding) &&
	    (encoding == DW_ATE_float || encoding == DW_ATE_complex_float || encoding == DW_ATE_imaginary_float))
		return 0;
	if (dwarf_aggregate_size(type, &size))
		return WORDS_MOST;
	return size > 16 ? 1 : size > 8 || !is_scalar(type) ? 2 : 1;
}

/* A declaration without arguments, as C has them, says nothing. */
static bool is_prototype(Dwarf_Die *die, int language)
{
	Dwarf_Attribute attr;

	switch (language) {
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14: return true;
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11: return dwarf_attr_integrate(die, DW_AT_prototyped, &attr) != NULL;
	default: return false;
	}
}

static int arguments_of(Dwarf_Die *die, int language)
{
	int words = 0;
	Dwarf_Die child, type;

	if (!is_prototype(die, language))
		return -1;
	if (type_of(die, &type) && !is_scalar(&type))
		words++; /* the place for what it returns */
	if (dwarf_child(die, &child))
		return words;
	do {
		if (dwarf_tag(&child) == DW_TAG_formal_parameter)
			words += type_of(&child, &type) ? words_of(&type) : WORDS_MOST;
		else if (dwarf_tag(&child) == DW_TAG_unspecified_parameters)
			words = WORDS_MOST;
	} while (words < WORDS_MOST && !dwarf_siblingof(&child, &child));
	return words < WORDS_MOST ? words : WORDS_MOST;
}

static void function_add(struct function_types *t, Dwarf_Die *die, int language, Dwarf_Addr bias)
{
	Dwarf_Attribute attr;
	struct typed_code x = {.words = (int8_t)arguments_of(die, language)};
	Dwarf_Die type;
	Dwarf_Addr base;
	ptrdiff_t at = 0;

	if (dwarf_attr_integrate(die, DW_AT_type, &attr))
		x.returned = (uint8_t)(type_of(die, &type) ? words_of(&type) : WORDS_MOST);
	while (t->ranges_most && (at = dwarf_ranges(die, at, &base, &x.start, &x.end)) > 0) {
		t->ranges_most--;
		x.start += bias;
		x.end += bias;
		mem_room(&t->list, &t->room, t->count, sizeof(*t->list));
		t->list[t->count++] = x;
	}
}

static void functions_of(struct function_types *t, Dwarf_Die *parent, int language, Dwarf_Addr bias, unsigned depth)
{
	Dwarf_Die die;

	if (depth > 16 || dwarf_child(parent, &die))
		return;
	do {
		if (!t->dies_most--)
			return;
		if (dwarf_tag(&die) == DW_TAG_subprogram)
			function_add(t, &die, language, bias);
		else if (dwarf_tag(&die) == DW_TAG_namespace)
			functions_of(t, &die, language, bias, depth + 1);
	} while (t->dies_most && !dwarf_siblingof(&die, &die));
}

static int by_start(const void *a, const void *b)
{
	const struct typed_code *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Functions that the linker has folded into one: what all of them say. */
static void shared_merge(struct function_types *t)
{
	size_t i, n = 0;

	for (i = 0; i < t->count; i++) {
		struct typed_code *last = n ? &t->list[n - 1] : NULL;

		if (!last || t->list[i].start >= last->end) {
			t->list[n++] = t->list[i];
			continue;
		}
		last->end = t->list[i].end > last->end ? t->list[i].end : last->end;
		last->returned = last->returned > t->list[i].returned ? last->returned : t->list[i].returned;
		last->words = last->words < 0 || t->list[i].words < 0 ? -1
		              : last->words > t->list[i].words        ? last->words
		                                                      : t->list[i].words;
	}
	t->count = n;
}

/* A function with a local symbol may be a copy that the compiler has made with other arguments. */
static void globals_read(struct function_types *t, const struct elf_file *f)
{
	const struct elf_symbol *list = f->symbol_count ? f->symbols : f->dynsyms;
	uint32_t n = f->symbol_count ? f->symbol_count : f->dynsym_count, i;
	size_t room = 0;
	Dwarf_Addr at;

	for (i = 1; i < n; i++) {
		if (!list[i].section || list[i].type != STT_FUNC || list[i].bind == STB_LOCAL ||
		    !lines_address(t->l, list[i].section, list[i].value, &at))
			continue;
		mem_room(&t->global, &room, t->global_count, sizeof(*t->global));
		t->global[t->global_count++] = at;
	}
	t->global_count = words_unique(t->global, t->global_count);
}

struct function_types *function_types_read(struct lines *l, const struct elf_file *f)
{
	struct function_types *t;
	Dwarf_Die *unit = NULL;
	Dwarf_Addr bias;

	if (!l)
		return NULL;
	t = mem_zero(1, sizeof(*t));
	*t = (struct function_types){.l = l, .dies_most = DIES_MOST, .ranges_most = RANGES_MOST};
	while (t->dies_most && (unit = dwfl_module_nextcu(lines_module(l), unit, &bias)) != NULL)
		if (dwarf_srclang(unit) != DW_LANG_Mips_Assembler) /* which says nothing of values */
			functions_of(t, unit, dwarf_srclang(unit), bias, 0);
	if (t->count)
		qsort(t->list, t->count, sizeof(*t->list), by_start);
	shared_merge(t);
	globals_read(t, f);
	return t;
}

void function_types_free(struct function_types *t)
{
	if (!t)
		return;
	free(t->list);
	free(t->global);
	free(t);
}

static const struct typed_code *code_find(const struct function_types *t, uint32_t section, uint64_t addr,
                                          Dwarf_Addr *at)
{
	size_t lo;

	if (!t || !lines_address(t->l, section, addr, at))
		return NULL;
	lo = SEARCH(t->count, i, t->list[i].start <= *at);
	return lo && *at < t->list[lo - 1].end ? &t->list[lo - 1] : NULL;
}

unsigned function_returned(const struct function_types *t, uint32_t section, uint64_t addr)
{
	Dwarf_Addr at;
	const struct typed_code *x = code_find(t, section, addr, &at);

	return x ? x->returned : WORDS_MOST;
}

int function_arguments(const struct function_types *t, uint32_t section, uint64_t addr)
{
	Dwarf_Addr at;
	const struct typed_code *x = code_find(t, section, addr, &at);

	return x && x->start == at && word_has(t->global, t->global_count, at) ? x->words : -1;
}
