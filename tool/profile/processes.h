/* SPDX-License-Identifier: MIT */
/* The profiled processes: the files that each has mapped, and the names of its threads, from the kernel's records. */
#ifndef PROFILE_PROCESSES_H
#define PROFILE_PROCESSES_H

#include "profile/binary_files.h"

struct process {
	pid_t pid;
	/* Executable mappings, sorted; target[i] describes mapping i to a walk. */
	struct etch_target_module *target;
	uint32_t
		*binary; /* for each mapping the number of its binary; BINARY_UNKNOWN if the file has no code for the mapping */
	size_t count, target_capacity, binary_capacity;
	uint32_t image; /* number of the program that the process runs (struct process_image); 0: none yet */
};
#define BINARY_UNKNOWN UINT32_MAX
#define BINARY_KERNEL  (UINT32_MAX - 4) /* an address of the kernel */

/* A program that a process has run: each fork(2) and exec(2) begins another one. */
struct process_image {
	pid_t pid;
	uint32_t parent; /* the image from which it was forked, or which it has replaced; 0: none */
	char name[16];   /* name of its first thread; TASK_COMM_LEN bytes */
};

struct thread {
	pid_t pid, tid;
	char name[16]; /* TASK_COMM_LEN */
	/* For --off-cpu: when and with which stack the thread has stopped running; 0: it runs. */
	uint64_t off_time;
	uint32_t off_node;
	bool off_ready; /* it could continue, but waits for a processor */
};

struct process_list {
	struct process *list; /* sorted by pid */
	size_t count, capacity;
	struct thread *threads; /* sorted by tid */
	size_t thread_count, thread_capacity;
	struct process_image *images; /* indexed by number; number 0 is not used */
	size_t image_count, image_capacity;
};

/* Find or add a process or a thread. They return null if out of memory. Pointers are valid until the next process or
 * thread is added. */
struct process *process_get(struct process_list *l, pid_t pid);
struct thread *thread_get(struct process_list *l, pid_t pid, pid_t tid);

/* Begins another image of a process. Returns its number, or 0 if out of memory. */
uint32_t image_add(struct process_list *l, pid_t pid, uint32_t parent, const char *name);
/* Returns the image that a process runs now, which it begins if there is none, or 0 if out of memory. */
uint32_t image_now(struct process_list *l, pid_t pid);

/* Notes that a file or memory is mapped at [m->start, m->end) from `offset` on, which removes earlier mappings there.
 * Returns false if out of memory. */
bool process_map(struct process *p, struct binary_list *binaries, const struct mapped_file *m, uint64_t offset);
/* Notes an exec(2), after which nothing is mapped. */
void process_clear(struct process *p);
/* Notes a fork(2): the child has the parent's mappings. Returns false if out of memory. */
bool process_copy(struct process_list *l, pid_t parent, pid_t child);
/* Reads the mappings of a running process from /proc. Returns false and a message if they cannot be read. */
bool process_read(struct process_list *l, pid_t pid, struct binary_list *binaries, struct error *e);
/* Returns the index of the mapping that contains an address, or -1. */
long process_find(const struct process *p, uint64_t at);
void process_list_free(struct process_list *l);

#endif
