/* SPDX-License-Identifier: MIT */
/* mark_tables.c: checks and counts the tables of markers (etch/mark.h). */
#include <etch/mark.h>

#include "patch/parts.h"
#include "patch/static_branch.h"

int mark_is_dropped(const struct module *m, const struct etch_mark_site *x)
{
	return !image_segment(&m->image, field_target(&x->site), 1);
}

int marks_ok(const struct module *m)
{
	for (size_t i = 0; i < m->mark_count; i++) {
		const struct etch_mark_site *x = &m->marks[i];
		const struct segment *s;

		if (mark_is_dropped(m, x))
			continue;
		s = image_segment(&m->image, field_target(&x->head), sizeof(struct etch_mark_head));
		if (!etch_mark_valid(&x->mark) || !s || !(s->prot & PROT_WRITE) || (field_target(&x->head) & 7) ||
		    !range_has(m, field_target(&x->site), ETCH_BRANCH_LEN, PROT_READ | PROT_EXEC) ||
		    !range_has(m, field_target(&x->target), 1, PROT_READ | PROT_EXEC) ||
		    !image_segment(&m->image, field_target(&x->mark.name), 1) ||
		    !image_segment(&m->image, field_target(&x->mark.args), 1) ||
		    !image_segment(&m->image, field_target(&x->mark.file), 1))
			return 0;
	}
	return 1;
}

void marks_info(const struct module *m, struct etch_info *info)
{
	for (size_t i = 0; !m->bad && i < m->mark_count; i++)
		if (!mark_is_dropped(m, &m->marks[i])) {
			const struct etch_mark_head *head = (const void *)(uintptr_t)field_target(&m->marks[i].head);

			info->marks++;
			info->marks_on += head->calls != NULL;
		}
}

const struct part_marks part_marks = {.ok = marks_ok};
