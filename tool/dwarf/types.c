/* SPDX-License-Identifier: MIT */
/* Reads types from DWARF (types.h). */
#include "dwarf/lines_internal.h"
#include "shared/search.h"
#include "support/memory.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The greatest number of typedefs and qualifiers around a type: in a hostile file they can form a cycle. */
#define PEELED_MOST 64u
/* The greatest number of members of one struct, for the same reason. */
#define MEMBERS_MOST 65536u

bool type_of(Dwarf_Die *die, Dwarf_Die *type)
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
		case DW_TAG_restrict_type:
		case DW_TAG_atomic_type: die = type; break;
		default: return true;
		}
	}
	return false;
}

bool type_is_scalar(Dwarf_Die *type)
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

	if (type_is_scalar(type))
		return MEMBER_SCALAR;
	return dwarf_tag(type) == DW_TAG_array_type && type_of(type, &element) && type_is_scalar(&element) ? MEMBER_ARRAY
	                                                                                                   : MEMBER_STRUCT;
}

/* Is the type a pointer to a member or std::nullptr_t? These have no parts, and for some of them DWARF gives no
 * size. */
static bool is_opaque(Dwarf_Die *type)
{
	int tag = dwarf_tag(type);

	return tag == DW_TAG_ptr_to_member_type || tag == DW_TAG_unspecified_type;
}

static bool is_class(Dwarf_Die *type)
{
	int tag = dwarf_tag(type);

	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type;
}

/* Is the DIE that of a member, or of a base class, in each object of a class? A static member is a variable of its own.
 */
static bool is_part(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);
	Dwarf_Attribute attr;

	return (tag == DW_TAG_member || tag == DW_TAG_inheritance) && !dwarf_attr(die, DW_AT_external, &attr);
}

/* Is the type an array, or does it contain one? `depth` is the number of structs around it. */
static bool has_array(Dwarf_Die *type, unsigned depth)
{
	Dwarf_Die die, inner;
	unsigned most = MEMBERS_MOST;
	int tag;

	if (type_is_scalar(type) || is_opaque(type))
		return false;
	if (!is_class(type) || depth > 8)
		return true; /* an array, a union, or unknown */
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

bool type_constant(Dwarf_Die *die, unsigned name, Dwarf_Word *value)
{
	Dwarf_Attribute attr;

	return dwarf_formudata(dwarf_attr(die, name, &attr), value) == 0;
}

/* The `size` of a member for which DWARF gives no size, such as a flexible array: it ends where the next member
 * begins. */
#define SIZE_UNKNOWN UINT64_MAX

/*
 * Reads which bytes a member of a variable of `size` bytes takes. Returns false if DWARF does not say where it is, as
 * for a virtual base, or if it extends beyond the variable. A member of no bytes may be at the end of the variable.
 */
static bool member_read(Dwarf_Die *die, uint64_t size, struct member *m)
{
	Dwarf_Word off = 0, bits, bytes;
	Dwarf_Die type;

	if (!type_of(die, &type))
		return false;
	m->kind = kind_of(&type);
	m->indexed = has_array(&type, 0);
	if (type_constant(die, DW_AT_bit_size, &bits)) {
		if (type_constant(die, DW_AT_data_bit_offset, &off)) {
			m->off = off / 8;
			m->size = (off + bits + 7) / 8 - m->off;
			return off / 8 < size && bits && m->size <= size - m->off;
		}
		/* In DWARF 3 the bit-field is inside its storage unit, which is taken instead of it. */
	}
	if (!type_constant(die, DW_AT_data_member_location, &off))
		return false;
	m->off = off;
	m->size = SIZE_UNKNOWN;
	if (dwarf_aggregate_size(&type, &bytes))
		return off <= size;
	m->size = bytes;
	return off <= size && bytes <= size - off;
}

static int by_offset(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	return x->size > y->size ? -1 : x->size < y->size;
}

/* Makes each member of unknown size in a sorted list end where the next one begins. */
static void sizes_complete(struct members *m, uint64_t size)
{
	uint64_t next = size, at = size;
	size_t i;

	for (i = m->count; i--;) {
		if (m->list[i].off < at) {
			next = at;
			at = m->list[i].off;
		}
		if (m->list[i].size == SIZE_UNKNOWN)
			m->list[i].size = next - m->list[i].off;
	}
}

/* Drops members of no bytes: empty structs and unions, arrays of no elements. */
static void empty_drop(struct members *m)
{
	size_t i, n = 0;

	for (i = 0; i < m->count; i++)
		if (m->list[i].size)
			m->list[n++] = m->list[i];
		else
			free(m->list[i].name);
	m->count = n;
}

/* Merges bit-fields that share bytes into one member. */
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

/* Makes the list of a variable's members one of bytes: sorted, each with a size, and none overlapping another. */
static void members_complete(struct members *m, uint64_t size)
{
	if (m->count)
		qsort(m->list, m->count, sizeof(*m->list), by_offset);
	sizes_complete(m, size);
	empty_drop(m);
	members_merge(m);
}

static void member_append(struct members *out, const struct member *m)
{
	mem_reserve(&out->list, &out->capacity, out->count, sizeof(*out->list));
	out->list[out->count++] = *m;
}

/* The greatest depth of structs inside structs, and length of their names: in a hostile file either can be endless. */
#define NESTED_MOST 8u
#define NAME_MOST   512u

/* Returns PREFIX.NAME, or the name alone if there is no prefix, or the prefix alone if an anonymous struct has no
 * name. */
static char *name_join(const char *prefix, const char *name)
{
	size_t capacity = strlen(prefix) + strlen(name) + 2;
	char *joined = mem_alloc(capacity, 1);

	snprintf(joined, capacity, "%s%s%s", prefix, *prefix && *name ? "." : "", name);
	return joined;
}

/*
 * Adds the members of a struct that is at `base` inside the variable instead of the struct. Returns false, having added
 * nothing, if the struct must stay a member of its own. Base classes in C++ stay, since a pointer to a base may be cast
 * to a pointer to the derived class.
 */
static bool nested_add(Dwarf_Die *outer, uint64_t base, const char *prefix, unsigned depth, struct members *out)
{
	size_t count = out->count, structs = out->nested_count;
	unsigned most = MEMBERS_MOST;
	Dwarf_Word bytes;
	Dwarf_Die type, die;

	if (depth > NESTED_MOST || strlen(prefix) > NAME_MOST || out->count > MEMBERS_MOST || !type_of(outer, &type) ||
	    dwarf_tag(&type) != DW_TAG_structure_type || dwarf_aggregate_size(&type, &bytes) || !bytes ||
	    dwarf_child(&type, &die))
		return false;
	mem_reserve(&out->nested, &out->nested_capacity, out->nested_count, sizeof(*out->nested));
	out->nested[out->nested_count++] = (struct nested){base, base + bytes, has_array(&type, 0)};
	do {
		struct member m = {0};
		const char *name = dwarf_diename(&die);
		char *joined;

		if (!is_part(&die))
			continue;
		if (dwarf_tag(&die) != DW_TAG_member || !most-- || !member_read(&die, bytes, &m) || m.size == SIZE_UNKNOWN ||
		    !m.size) {
			while (out->count > count)
				free(out->list[--out->count].name);
			out->nested_count = structs;
			return false;
		}
		m.off += base;
		joined = name_join(prefix, name ? name : "");
		if (m.kind == MEMBER_STRUCT && nested_add(&die, m.off, joined, depth + 1, out)) {
			free(joined);
			continue;
		}
		m.name = joined;
		member_append(out, &m);
	} while (!dwarf_siblingof(&die, &die));
	return true;
}

/*
 * Adds a part of a struct type of `bytes` bytes to the members of a variable of `size` bytes. Sets *ends_open if it is
 * a flexible array member, or GNU C's array of no elements at the end, since the struct then has no known end. Returns
 * false if member_read() does.
 */
static bool part_add(Dwarf_Die *die, uint64_t size, uint64_t bytes, struct members *out, bool *ends_open)
{
	bool base = dwarf_tag(die) == DW_TAG_inheritance;
	const char *name = dwarf_diename(die);
	struct member m = {0};

	if (!member_read(die, size, &m))
		return false;
	*ends_open |= m.indexed && (m.size == SIZE_UNKNOWN || (!m.size && m.off == bytes));
	if (!m.size && m.off == bytes && bytes < size)
		m.size = SIZE_UNKNOWN;
	if (!base && m.kind == MEMBER_STRUCT && m.size != SIZE_UNKNOWN && nested_add(die, m.off, name ? name : "", 1, out))
		return true;
	if (!name || !*name)
		name = base ? "(base)" : "(unnamed)";
	m.name = mem_string(name);
	member_append(out, &m);
	return true;
}

/*
 * Reads the members of a struct type. `size` is the number of bytes of the variable, which has more than its type if a
 * flexible array at the end has an initializer.
 */
static void struct_read(Dwarf_Die *type, uint64_t size, struct members *out)
{
	Dwarf_Word bytes;
	Dwarf_Die die;
	unsigned most = MEMBERS_MOST;
	bool ends_open = false;

	if (!is_class(type) || dwarf_aggregate_size(type, &bytes) || bytes > size || dwarf_child(type, &die))
		return;
	do {
		if (!is_part(&die))
			continue;
		if (!most-- || !part_add(&die, size, bytes, out, &ends_open)) {
			members_free(out);
			return;
		}
	} while (!dwarf_siblingof(&die, &die));
	if (bytes < size && !ends_open) {
		members_free(out);
		return;
	}
	members_complete(out, size);
}

/* Returns true and the address if the DIE is a variable at a fixed address. */
static bool fixed_address(Dwarf_Die *die, Dwarf_Addr *addr)
{
	Dwarf_Attribute attr, of;
	Dwarf_Op *op;
	size_t n;

	if (dwarf_tag(die) != DW_TAG_variable || !dwarf_attr(die, DW_AT_location, &attr) ||
	    dwarf_getlocation(&attr, &op, &n) || n != 1)
		return false;
	if (op[0].atom == DW_OP_addr) {
		*addr = op[0].number;
		return true;
	}
	return (op[0].atom == DW_OP_addrx || op[0].atom == DW_OP_GNU_addr_index) &&
	       !dwarf_getlocation_attr(&attr, op, &of) && !dwarf_formaddr(&of, addr);
}

/* Adds the variables among the children of a unit, and of its namespaces. */
static void variables_add(struct variable_dies *v, Dwarf_Die *parent, unsigned depth, unsigned *most)
{
	struct variable_die x;

	if (depth > 16 || dwarf_child(parent, &x.die))
		return;
	do {
		if (!*most)
			return;
		--*most;
		if (fixed_address(&x.die, &x.addr)) {
			x.order = v->count;
			mem_reserve(&v->list, &v->capacity, v->count, sizeof(*v->list));
			v->list[v->count++] = x;
		}
		if (dwarf_tag(&x.die) == DW_TAG_namespace)
			variables_add(v, &x.die, depth + 1, most);
	} while (*most && !dwarf_siblingof(&x.die, &x.die));
}

static int by_address(const void *a, const void *b)
{
	const struct variable_die *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Returns all variables at fixed addresses. They are read once, since a file may have many objects. */
static const struct variable_dies *variables_of(struct lines *l)
{
	struct variable_dies *v = lines_variables(l);
	unsigned most = DIES_MOST;
	Dwarf_Die *unit = NULL;
	Dwarf_Addr bias;

	if (v->read)
		return v;
	v->read = true;
	while (most && (unit = dwfl_module_nextcu(lines_module(l), unit, &bias)) != NULL)
		variables_add(v, unit, 0, &most);
	if (v->count)
		qsort(v->list, v->count, sizeof(*v->list), by_address);
	return v;
}

/* Finds the type of the variable at an address: of the first one there, in the order of DWARF. */
static bool variable_type(struct lines *l, uint64_t addr, Dwarf_Die *type)
{
	const struct variable_dies *v = l && lines_module(l) ? variables_of(l) : NULL;
	size_t k = v ? SEARCH(v->count, i, v->list[i].addr < addr) : 0;
	Dwarf_Die die;

	if (!v || k == v->count || v->list[k].addr != addr)
		return false;
	die = v->list[k].die;
	return type_of(&die, type);
}

void members_find(struct lines *l, uint64_t addr, uint64_t size, struct members *out)
{
	Dwarf_Die type;

	memset(out, 0, sizeof(*out));
	if (!variable_type(l, addr, &type))
		return;
	struct_read(&type, size, out);
	out->known = true;
}

const char *members_missing_why(struct lines *l, const struct elf_file *f)
{
	Dwfl_Module *module = l ? lines_module(l) : NULL;
	Dwarf_Die *unit = NULL;
	Dwarf_Addr bias;

	if (!f->symbol_count)
		return "stripped";
	if (!elf_section_find(f, ".debug_info", 1))
		return "no -g";
	while (module && (unit = dwfl_module_nextcu(module, unit, &bias)) != NULL) {
		const char *name = dwarf_diename(unit);

		if (dwarf_hasattr(unit, DW_AT_dwo_name) || dwarf_hasattr(unit, DW_AT_GNU_dwo_name))
			return "split DWARF";
		if (name && !strcmp(name, "<artificial>"))
			return "LTO";
	}
	return "no -g, or -g1";
}

void members_free(struct members *m)
{
	size_t i;

	for (i = 0; i < m->count; i++)
		free(m->list[i].name);
	free(m->list);
	free(m->nested);
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

bool member_is_indexed(const struct members *all, const struct member *m)
{
	size_t i;

	for (i = 0; i < all->nested_count && !m->indexed; i++)
		if (all->nested[i].indexed && all->nested[i].from <= m->off && m->off < all->nested[i].to)
			return true;
	return m->indexed;
}

/* ---- arrays ---------------------------------------------------------------- */

/* Adds the arrays in a type at an offset. Returns false if DWARF does not describe all of them. `depth` is the number
 * of types around it. */
static bool arrays_read(Dwarf_Die *type, uint64_t off, unsigned depth, struct indexes *out)
{
	Dwarf_Die die, inner;
	Dwarf_Word size, at;
	int tag = dwarf_tag(type);

	if (type_is_scalar(type) || is_opaque(type))
		return true;
	if (depth > 8 || out->count > MEMBERS_MOST)
		return false;
	if (tag == DW_TAG_array_type) {
		if (!type_of(type, &inner) || dwarf_aggregate_size(&inner, &size))
			return false;
		mem_reserve(&out->list, &out->capacity, out->count, sizeof(*out->list));
		out->list[out->count++] = (struct index_place){off, off + size};
		return arrays_read(&inner, off, depth + 1, out);
	}
	if (!is_class(type) && tag != DW_TAG_union_type)
		return false;
	if (dwarf_child(type, &die))
		return true;
	do {
		at = 0;
		if (!is_part(&die))
			continue;
		type_constant(&die, DW_AT_data_member_location, &at); /* a bit-field and a member of a union may lack it */
		if (!type_of(&die, &inner) || !arrays_read(&inner, off + at, depth + 1, out))
			return false;
	} while (!dwarf_siblingof(&die, &die));
	return true;
}

void indexes_find(struct lines *l, uint64_t addr, struct indexes *out)
{
	Dwarf_Die type;

	memset(out, 0, sizeof(*out));
	out->known = variable_type(l, addr, &type) && arrays_read(&type, 0, 0, out);
}

void indexes_free(struct indexes *x)
{
	free(x->list);
	memset(x, 0, sizeof(*x));
}
