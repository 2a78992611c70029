/* SPDX-License-Identifier: MIT */
/* Fills a profile from the kernel's records (profile.h). Layouts: linux/perf_event.h, enum perf_event_type. */
#include "profile/profile.h"

#include <stdlib.h>
#include <string.h>

#include "support/memory.h"
#include "support/sort.h"

struct record_mmap2 {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t start, size, offset;
	union {
		struct {
			uint32_t major, minor;
			uint64_t inode, generation;
		};
		struct {
			uint8_t build_id_size, zero[3];
			uint8_t build_id[20];
		};
	};
	uint32_t prot, flags;
	char path[];
};

struct record_comm {
	struct perf_event_header header;
	uint32_t pid, tid;
	char name[];
};

struct record_fork {
	struct perf_event_header header;
	uint32_t pid, ppid, tid, ptid;
};

struct record_switch {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t time;
};

struct record_sample {
	struct perf_event_header header;
	uint64_t ip;
	uint32_t pid, tid;
	uint64_t time;
	uint64_t abi;
	uint64_t reg[17]; /* only if abi is not PERF_SAMPLE_REGS_ABI_NONE; then size, bytes, size copied */
};

/* The registers of a sample in the order of enum perf_event_x86_regs. */
static const uint8_t sampled[17] = {
	ETCH_RAX, ETCH_RBX, ETCH_RCX, ETCH_RDX, ETCH_RSI, ETCH_RDI, ETCH_RBP, ETCH_RSP, ETCH_RIP,
	ETCH_R8,  ETCH_R9,  ETCH_R10, ETCH_R11, ETCH_R12, ETCH_R13, ETCH_R14, ETCH_R15,
};

struct profile *profile_new(void)
{
	struct profile *p = calloc(1, sizeof(*p));

	if (p && (string_set_add(&p->names, "") || key_set_add(&p->stacks, UINT64_MAX, 0))) {
		profile_free(p);
		return NULL;
	}
	return p;
}

void profile_free(struct profile *p)
{
	if (!p)
		return;
	binary_list_free(&p->binaries);
	process_list_free(&p->processes);
	key_set_free(&p->stacks);
	string_set_free(&p->names);
	key_set_free(&p->addresses);
	key_set_free(&p->functions);
	key_set_free(&p->calls);
	free(p->samples);
	free(p->values);
	free(p->address_of);
	free(p->places);
	free(p->place_first);
	free(p->call_of);
	free(p);
}

static void take_mmap(struct profile *p, const struct record_mmap2 *r)
{
	struct mapped_file m = {.path = r->path, .start = r->start, .end = r->start + r->size};
	struct process *process;

	if (!(r->prot & 4)) /* PROT_EXEC */
		return;
	if (r->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		m.build_id_size = r->build_id_size < BUILD_ID_MOST ? r->build_id_size : BUILD_ID_MOST;
		memcpy(m.build_id, r->build_id, m.build_id_size);
	} else {
		m.major = r->major;
		m.minor = r->minor;
		m.inode = r->inode;
	}
	process = process_get(&p->processes, (pid_t)r->pid);
	if (!process || !process_map(process, &p->binaries, &m, r->offset))
		p->no_memory |= !process;
}

static void take_comm(struct profile *p, const struct record_comm *r)
{
	struct thread *t = thread_get(&p->processes, (pid_t)r->pid, (pid_t)r->tid);
	struct process *process;

	if (t)
		strncpy(t->name, r->name, sizeof(t->name) - 1);
	if (!(r->header.misc & PERF_RECORD_MISC_COMM_EXEC))
		return;
	process = process_get(&p->processes, (pid_t)r->pid);
	if (process)
		process_clear(process);
}

static void take_fork(struct profile *p, const struct record_fork *r)
{
	struct thread *t = thread_get(&p->processes, (pid_t)r->ppid, (pid_t)r->ptid);
	char name[sizeof(t->name)] = "";

	if (t)
		memcpy(name, t->name, sizeof(name));
	t = thread_get(&p->processes, (pid_t)r->pid, (pid_t)r->tid);
	if (t)
		memcpy(t->name, name, sizeof(name));
	if (r->pid != r->ppid)
		process_copy(&p->processes, (pid_t)r->ppid, (pid_t)r->pid);
}

/* A thread that ends does not wait. */
static void take_exit(struct profile *p, const struct record_fork *r)
{
	struct thread *t = thread_get(&p->processes, (pid_t)r->pid, (pid_t)r->tid);

	if (t)
		t->off_time = 0;
}

/* The number of the stack node of a walk, and its callers' nodes. */
static uint32_t stack_add(struct profile *p, const struct thread *t, size_t count, enum stop stop)
{
	uint32_t name = string_set_add(&p->names, t && t->name[0] ? t->name : "[unnamed]");
	uint32_t node = key_set_add(&p->stacks, STACK_THREAD, name);

	if (stop != STOP_END && node != KEY_NONE)
		node = key_set_add(&p->stacks, (uint64_t)node << 32 | STACK_STOP, stop);
	while (count-- && node != KEY_NONE)
		node = key_set_add(&p->stacks, (uint64_t)node << 32 | p->frames[count].binary, p->frames[count].address);
	return name == KEY_NONE ? KEY_NONE : node;
}

static void sample_add(struct profile *p, const struct profile_sample *s)
{
	if (s->node == KEY_NONE || !mem_room_try(&p->samples, &p->sample_room, p->sample_count, sizeof(*p->samples))) {
		p->no_memory = true;
		return;
	}
	p->samples[p->sample_count++] = *s;
	p->weight += s->weight;
}

/* Walks a sample's stack. Returns the stack node. */
static uint32_t take_stack(struct profile *p, const struct record_sample *r)
{
	const struct process *process = process_get(&p->processes, (pid_t)r->pid);
	const struct thread *t = thread_get(&p->processes, (pid_t)r->pid, (pid_t)r->tid);
	const uint8_t *tail = (const uint8_t *)(r + 1);
	struct sample s;
	enum stop stop = STOP_BITS;
	size_t count = 0;
	uint64_t size;

	if (!process)
		return KEY_NONE;
	memcpy(&size, tail, 8);
	s.stack = tail + 8;
	s.stack_asked = size;
	s.stack_size = 0;
	if (size && size <= r->header.size - sizeof(*r) - 16)
		memcpy(&s.stack_size, tail + 8 + size, 8);
	if (s.stack_size > size)
		s.stack_size = size;
	for (unsigned i = 0; i < 17; i++)
		s.reg[sampled[i]] = r->reg[i];
	s.guessed = 0;
	s.assumed = false;
	s.frame_pointers = p->frame_pointers;
	if (r->abi == PERF_SAMPLE_REGS_ABI_64)
		count = sample_walk(process, &p->binaries, &s, p->frames, &stop);
	p->stops[stop]++;
	p->guessed += !!s.guessed;
	p->assumed += s.assumed;
	return stack_add(p, t, count, stop);
}

static void take_sample(struct profile *p, const struct record_sample *r)
{
	struct profile_sample s = {.time = r->time, .weight = p->period, .pid = (pid_t)r->pid, .tid = (pid_t)r->tid};

	struct thread *t;

	if (r->abi == PERF_SAMPLE_REGS_ABI_NONE || r->header.size < sizeof(*r) + 8) {
		p->bare++;
		return;
	}
	s.node = take_stack(p, r);
	if (p->unit == UNIT_WAIT) {
		t = thread_get(&p->processes, s.pid, s.tid);
		if (t) {
			t->off_time = s.time;
			t->off_node = s.node;
		}
	} else {
		sample_add(p, &s);
	}
}

/* A thread runs again: its wait counts. */
static void wait_end(struct profile *p, struct thread *t, uint64_t now)
{
	struct profile_sample s = {.time = t->off_time, .pid = t->pid, .tid = t->tid, .node = t->off_node};

	if (!t->off_time)
		return;
	s.weight = now > t->off_time ? now - t->off_time : 0;
	t->off_time = 0;
	sample_add(p, &s);
}

static void take_switch(struct profile *p, const struct record_switch *r)
{
	struct thread *t;

	if (r->header.misc & PERF_RECORD_MISC_SWITCH_OUT)
		return;
	t = thread_get(&p->processes, (pid_t)r->pid, (pid_t)r->tid);
	if (t)
		wait_end(p, t, r->time);
}

static int time_order(const void *a, const void *b)
{
	const struct profile_sample *x = a, *y = b;

	return x->time < y->time ? -1 : x->time > y->time;
}

void profile_end(struct profile *p, uint64_t now)
{
	for (size_t i = 0; i < p->processes.thread_count; i++)
		wait_end(p, &p->processes.threads[i], now);
	sort_if_needed(p->samples, p->sample_count, sizeof(*p->samples), time_order);
}

void profile_take(void *profile, const struct perf_event_header *h)
{
	const uint64_t *word = (const void *)(h + 1);
	struct profile *p = profile;

	switch (h->type) {
	case PERF_RECORD_MMAP2: take_mmap(p, (const void *)h); break;
	case PERF_RECORD_COMM: take_comm(p, (const void *)h); break;
	case PERF_RECORD_FORK: take_fork(p, (const void *)h); break;
	case PERF_RECORD_SAMPLE: take_sample(p, (const void *)h); break;
	case PERF_RECORD_SWITCH: take_switch(p, (const void *)h); break;
	case PERF_RECORD_EXIT: take_exit(p, (const void *)h); break;
	case PERF_RECORD_LOST: p->lost += word[1]; break;
	case PERF_RECORD_LOST_SAMPLES: p->lost += word[0]; break;
	case PERF_RECORD_THROTTLE: p->throttled++; break;
	default: break;
	}
}
