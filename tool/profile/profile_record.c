/* SPDX-License-Identifier: MIT */
/* Fills a profile from the kernel's records (profile.h). linux/perf_event.h has their layouts (enum
 * perf_event_type). */
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

/* The head of a sample. After `period` follow the kernel's frames if they are asked for: their number, and then an
 * address for each.
 */
struct record_sample {
	struct perf_event_header header;
	uint64_t ip;
	uint32_t pid, tid;
	uint64_t time, period;
};

/* The parts of a sample that follow its head. */
struct sample_parts {
	const uint64_t *kernel; /* addresses of the kernel's frames, innermost first */
	uint64_t kernel_count;
	uint64_t abi;        /* PERF_SAMPLE_REGS_ABI_* */
	const uint64_t *reg; /* 17, unless abi is PERF_SAMPLE_REGS_ABI_NONE */
	const uint8_t *stack;
	uint64_t stack_size, stack_asked; /* bytes copied; bytes that the kernel was asked for */
};

#define KERNEL_FRAMES_MOST (STACK_EXTRA - 16)

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
	free(p->kallsyms.text);
	if (p->diff) {
		free(p->diff->was);
		free(p->diff->is);
		free(p->diff->noise);
		free(p->diff->old_self);
		free(p->diff->function_was);
		free(p->diff->function_is);
		free(p->diff->function_noise);
		free(p->diff);
	}
	if (p->heap) {
		free(p->heap->sizes);
		free(p->heap->moments);
		free(p->heap->live);
		free(p->heap);
	}
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
	if (r->header.misc & PERF_RECORD_MISC_COMM_EXEC) {
		process = process_get(&p->processes, (pid_t)r->pid);
		if (process)
			process_clear(process);
		image_add(&p->processes, (pid_t)r->pid, process ? process->image : 0, r->name);
	} else if (r->pid == r->tid) {
		process = process_get(&p->processes, (pid_t)r->pid);
		if (process && process->image)
			strncpy(p->processes.images[process->image].name, r->name, sizeof(p->processes.images->name) - 1);
	}
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
	if (r->pid != r->ppid) {
		process_copy(&p->processes, (pid_t)r->ppid, (pid_t)r->pid);
		image_add(&p->processes, (pid_t)r->pid, image_now(&p->processes, (pid_t)r->ppid), name);
	}
}

/* Takes the record of a thread's end: the thread is no longer counted as waiting. */
static void take_exit(struct profile *p, const struct record_fork *r)
{
	struct thread *t = thread_get(&p->processes, (pid_t)r->pid, (pid_t)r->tid);

	if (t)
		t->off_time = 0;
}

/* Divides a sample into its parts. Returns false if it is not whole. */
static bool sample_divide(const struct profile *p, const struct record_sample *r, struct sample_parts *out)
{
	const uint64_t *at = (const uint64_t *)(r + 1), *end = at + (r->header.size - sizeof(*r)) / 8;

	*out = (struct sample_parts){0};
	if (p->kernel) {
		if (at == end || *at > (uint64_t)(end - at - 1))
			return false;
		out->kernel_count = *at++;
		out->kernel = at;
		at += out->kernel_count;
		if (out->kernel_count > KERNEL_FRAMES_MOST)
			out->kernel_count = KERNEL_FRAMES_MOST;
	}
	if (at == end)
		return false;
	out->abi = *at++;
	if (out->abi == PERF_SAMPLE_REGS_ABI_NONE)
		return true;
	if (end - at < 18)
		return false;
	out->reg = at;
	at += 17;
	out->stack_asked = *at++;
	out->stack = (const uint8_t *)at;
	if (out->stack_asked && out->stack_asked < (uint64_t)(end - at) * 8)
		out->stack_size = at[out->stack_asked / 8];
	if (out->stack_size > out->stack_asked)
		out->stack_size = out->stack_asked;
	return true;
}

/* Returns the node for a thread of a process. */
static uint32_t thread_node(struct profile *p, pid_t pid, pid_t tid)
{
	uint32_t image = image_now(&p->processes, pid), name, process;
	const struct thread *t = thread_get(&p->processes, pid, tid);

	name = string_set_add(&p->names, t && t->name[0] ? t->name : "[unnamed]");
	process = image ? key_set_add(&p->stacks, STACK_PROCESS, image) : KEY_NONE;
	if (process == KEY_NONE || name == KEY_NONE)
		return KEY_NONE;
	return key_set_add(&p->stacks, (uint64_t)process << 32 | STACK_THREAD,
	                   (p->by_thread ? (uint64_t)(uint32_t)tid << 32 : 0) | name);
}

/* Adds a walk's frames below a thread's node, and returns the innermost frame's node. */
static uint32_t stack_add(struct profile *p, uint32_t node, size_t count, enum stop stop)
{
	if (stop != STOP_END && node != KEY_NONE)
		node = key_set_add(&p->stacks, (uint64_t)node << 32 | STACK_STOP, stop);
	while (count-- && node != KEY_NONE)
		node = key_set_add(&p->stacks, (uint64_t)node << 32 | p->frames[count].binary, p->frames[count].address);
	return node;
}

/* Adds the kernel's frames. All except the innermost are return addresses, which are represented by the byte before
 * them. */
static uint32_t kernel_add(struct profile *p, uint32_t node, const struct sample_parts *s)
{
	for (uint64_t i = s->kernel_count; i-- && node != KEY_NONE;) {
		uint64_t at = s->kernel[i];
		bool innermost = !i || s->kernel[i - 1] >= (uint64_t)PERF_CONTEXT_MAX;

		if (at >= (uint64_t)PERF_CONTEXT_MAX) /* a mark in place of an address */
			continue;
		node = key_set_add(&p->stacks, (uint64_t)node << 32 | BINARY_KERNEL, at - !innermost);
	}
	return node;
}

static void sample_add(struct profile *p, const struct profile_sample *s)
{
	if (s->node == KEY_NONE ||
	    !mem_reserve_try(&p->samples, &p->sample_capacity, p->sample_count, sizeof(*p->samples))) {
		p->no_memory = true;
		return;
	}
	p->samples[p->sample_count++] = *s;
	p->weight += s->weight;
}

/* Walks a sample's stack below the node of its thread. Returns the innermost frame's node. */
static uint32_t take_stack(struct profile *p, const struct record_sample *r, const struct sample_parts *parts,
                           uint32_t node)
{
	const struct process *process = process_get(&p->processes, (pid_t)r->pid);
	struct sample s = {.stack = parts->stack, .stack_size = parts->stack_size, .stack_asked = parts->stack_asked};
	enum stop stop = STOP_BITS;
	size_t count = 0;

	if (!process)
		return KEY_NONE;
	for (unsigned i = 0; i < 17; i++)
		s.reg[sampled[i]] = parts->reg[i];
	s.frame_pointers = p->frame_pointers;
	if (parts->abi == PERF_SAMPLE_REGS_ABI_64)
		count = sample_walk(process, &p->binaries, &s, p->frames, &stop);
	p->stops[stop]++;
	p->guessed += !!s.guessed;
	p->assumed += s.assumed;
	return stack_add(p, node, count, stop);
}

static void take_sample(struct profile *p, const struct record_sample *r)
{
	struct profile_sample s = {.time = r->time, .weight = p->period, .pid = (pid_t)r->pid, .tid = (pid_t)r->tid};
	bool waits = p->unit == UNIT_WAIT && (!p->wall || r->period == 1);
	struct sample_parts parts;
	struct thread *t;

	if (r->header.size < sizeof(*r) || !sample_divide(p, r, &parts) || (!parts.reg && !parts.kernel_count)) {
		p->bare++;
		return;
	}
	s.node = thread_node(p, s.pid, s.tid);
	if (parts.reg)
		s.node = take_stack(p, r, &parts, s.node);
	else
		p->stops[STOP_END]++; /* a process that is about to end no longer has anything outside the kernel */
	if (s.node != KEY_NONE)
		s.node = kernel_add(p, s.node, &parts);
	if (!waits) {
		sample_add(p, &s);
		return;
	}
	t = thread_get(&p->processes, s.pid, s.tid);
	if (t) {
		t->off_time = s.time;
		t->off_node = s.node;
		t->off_ready = false;
	}
}

/* Ends the wait of a thread that runs again, and counts it. */
static void wait_end(struct profile *p, struct thread *t, uint64_t now)
{
	struct profile_sample s = {.time = t->off_time, .pid = t->pid, .tid = t->tid, .node = t->off_node};

	if (!t->off_time)
		return;
	s.weight = now > t->off_time ? now - t->off_time : 0;
	t->off_time = 0;
	if (p->wall && s.node != KEY_NONE)
		s.node =
			key_set_add(&p->stacks, (uint64_t)s.node << 32 | STACK_WAIT, t->off_ready ? WAIT_PROCESSOR : WAIT_EVENT);
	sample_add(p, &s);
}

static void take_switch(struct profile *p, const struct record_switch *r)
{
	struct thread *t = thread_get(&p->processes, (pid_t)r->pid, (pid_t)r->tid);

	if (t && (r->header.misc & PERF_RECORD_MISC_SWITCH_OUT))
		t->off_ready = r->header.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
	else if (t)
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

void profile_kernel_time(struct profile *p, uint64_t ns, pid_t pid, uint64_t now)
{
	struct profile_sample s = {.time = now, .weight = ns / p->period * p->period, .pid = pid, .tid = pid};
	uint32_t thread = s.weight ? thread_node(p, pid, pid) : KEY_NONE;

	if (thread == KEY_NONE)
		return;
	p->kernel_seen = s.weight;
	s.node = key_set_add(&p->stacks, (uint64_t)thread << 32 | BINARY_KERNEL, 0);
	sample_add(p, &s);
}

uint64_t profile_unseen(const struct profile *p)
{
	uint64_t walks = p->bare + p->lost, all = p->user_time + p->kernel_time, seen, least;

	if (!p->timed || p->unit != UNIT_TIME)
		return 0;
	for (int i = 0; i < STOP_COUNT; i++)
		walks += p->stops[i];
	/* A few samples more or less than there are periods are chance, and so is a part of the time if a timer is late. */
	seen = walks * p->period + p->kernel_seen;
	least = all / 20 > 10 * p->period ? all / 20 : 10 * p->period;
	return all > seen + least ? all - seen : 0;
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
