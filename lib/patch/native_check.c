/* SPDX-License-Identifier: MIT */
/* native_check.c: validates __pv_native, as table_check.c does the tables that the core reads. */
#include "patch/internal.h"

/* The function, and its sequence with the ret after it, must lie in code. */
int table_native_ok(const struct module *m, const struct etch_native *n)
{
	uint64_t func = etch_ref((uint64_t)(uintptr_t)&n->func, n->func);
	uint64_t code = etch_ref((uint64_t)(uintptr_t)&n->code, n->code);

	return etch_native_valid(n) && range_has(m, func, 1, PROT_READ | PROT_EXEC) &&
	       range_has(m, code, n->len + 1u, PROT_READ | PROT_EXEC);
}

int table_natives_ok(const struct module *m)
{
	for (size_t i = 0; i < m->native_count; i++)
		if (!table_native_ok(m, &m->native[i]))
			return 0;
	return 1;
}
