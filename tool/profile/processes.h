/* SPDX-License-Identifier: MIT */
/* The profiled processes: what each has mapped, and the names of its threads, by the kernel's records. */
#ifndef PROFILE_PROCESSES_H
#define PROFILE_PROCESSES_H

#include "profile/binary_files.h"

struct process {
	pid_t pid;
	/* Executable mappings, sorted; target[i] is what a walk sees of mapping i. */
	struct etch_target_module *target;
	uint32_t *binary; /* number of its binary, or BINARY_UNKNOWN: memory that the file has no code for */
	size_t count, target_capacity, binary_capacity;
	uint32_t image; /* number of the program that it runs (struct process_image); 0: none yet */
};
#define BINARY_UNKNOWN UINT32_MAX
#define BINARY_KERNEL  (UINT32_MAX - 4) /* an address of the kernel's */

/* A program that a process has run: one more with each fork(2) and exec(2). */
struct process_image {
	pid_t pid;
	uint32_t parent; /* the image that it was forked from, or that it has replaced; 0: none */
	char name[16];   /* TASK_COMM_LEN; of its first thread */
};

struct thread {
	pid_t pid, tid;
	char name[16]; /* TASK_COMM_LEN */
	/* --off-cpu: when and with which stack it has stopped running; 0: it runs. */
	uint64_t off_time;
	uint32_t off_node;
	bool off_ready; /* it could go on running, and waits for a processor */
};

struct process_list {
	struct process *list; /* by pid */
	size_t count, capacity;
	struct thread *threads; /* by tid */
	size_t thread_count, thread_capacity;
	struct process_image *images; /* by number; number 0 is not used */
	size_t image_count, image_capacity;
};

/* Null: out of memory. Pointers are valid until the next process or thread is added. */
struct process *process_get(struct process_list *l, pid_t pid);
struct thread *thread_get(struct process_list *l, pid_t pid, pid_t tid);

/* Begins another image of a process; its number, or 0: out of memory. */
uint32_t image_add(struct process_list *l, pid_t pid, uint32_t parent, const char *name);
/* The image of a process that runs now, which begins if there is none; 0: out of memory. */
uint32_t image_now(struct process_list *l, pid_t pid);

/* A file, or memory, is mapped at [start, start + size) from `offset` on; earlier mappings there are gone. */
bool process_map(struct process *p, struct binary_list *binaries, const struct mapped_file *m, uint64_t offset);
/* An exec(2): nothing is mapped. */
void process_clear(struct process *p);
/* A fork(2): the child has what the parent has. */
bool process_copy(struct process_list *l, pid_t parent, pid_t child);
/* Reads the mappings of a running process from /proc. False and a message: they cannot be read. */
bool process_read(struct process_list *l, pid_t pid, struct binary_list *binaries, struct error *e);
/* The mapping of an address; -1: none. */
long process_find(const struct process *p, uint64_t at);
void process_list_free(struct process_list *l);

#endif
