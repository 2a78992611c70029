/* SPDX-License-Identifier: MIT */
/* Unwind rules as text for output. */
#ifndef X86_RULE_TEXT_H
#define X86_RULE_TEXT_H

#include <stddef.h>

#include <etch/orc.h>

/* Write the parts of a rule: the CFA as "rsp+16" or "*(rsp+160)+0"; rbp as "same", "cfa-16", "*(rbp+0)" or "undef"; the
 * return address as "cfa-8" or "rdx". */
void rule_cfa_text(const struct etch_rule *r, char *out, size_t size);
void rule_bp_text(const struct etch_rule *r, char *out, size_t size);
void rule_ra_text(const struct etch_rule *r, char *out, size_t size);
/* Return the names, for output, of a rule's kind and of the source of a row. */
const char *rule_kind_text(const struct etch_rule *r);
const char *row_source_text(unsigned source);
/* Returns the name of register 0 to 15, such as "rbx". */
const char *reg_text(unsigned r);
/* Returns the name of register i, 0 to 4, of struct etch_cfi_saves (shared/cfi_rule.h). */
const char *saved_reg_text(unsigned i);

#endif
