/* SPDX-License-Identifier: MIT */
/*
 * commit.c: changes that are more than stores (patch.c): pages of text are swapped, or several stores are made to one
 * site of a process with one thread.
 */
#include "common/sys.h"
#include "patch/parts.h"

int swap_refused;

static int swaps_any(const struct list *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->word[i].swap)
			return 1;
	return 0;
}

static int commit_once(struct txn *t)
{
	struct swaps swaps;
	int err = swaps_prepare(&swaps, &t->text);

	if (err)
		return err;
	t->swaps = swaps.count ? &swaps : NULL;
	/* Between two stores to one site no signal handler of this thread runs: the lock blocks signals. Another process
	 * that shares this memory may have created a thread since the plan was made. */
	err = t->needs_alone && !sync_alone() ? ETCH_ETHREADS : txn_change(t);
	t->swaps = NULL;
	swaps_end(&swaps);
	return err;
}

int commit_any(struct txn *t)
{
	int refused = list_sort(&t->text), text_refused, err;
	size_t i;

	if (refused)
		return refused;
	refused = commit_once(t);
	text_refused = t->text_refused;
	/* Text that may not be made writable is swapped, which needs no page that is writable and executable. */
	if (text_refused && !t->needs_alone) {
		for (i = 0; i < t->text.count; i++)
			if (!t->text.word[i].swap)
				t->text.word[i].swap = WORD_SWAP;
		refused = commit_once(t);
	}
	/* The process had other threads, and may have none now: then stores need nothing of what swaps were refused. */
	if (refused && !text_refused && swaps_any(&t->text) && t->alone < 0 && sync_alone()) {
		for (i = 0; i < t->text.count; i++)
			t->text.word[i].swap = WORD_STORE;
		t->needs_alone = 1;
		return commit_once(t);
	}
	err = refused;
	/* A load that crosses a word is right as it is, if that is what the system refuses. */
	if (refused && swaps_cancel_optional(&t->text))
		err = commit_once(t);
	/* A policy stays. Were it tried with each set, readers would see each value come, go and come again. */
	if (refused == ETCH_EPERM && !err)
		swap_refused = 1;
	return err;
}
