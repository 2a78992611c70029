/* SPDX-License-Identifier: MIT */
/*
 * etch profile and etch heap on files that somebody else made: the kernel's records and the recorder's file are played
 * here, of a process that has mapped the file. What is in them beyond that is random: a process's stack is its own.
 */
#include "fuzz.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "heap/heap_profile.h"
#include "profile/profile.h"
#include "profile/writers.h"

#define SAMPLES  12u
#define STACK    2048u
#define STACK_AT 0x7ffc00000000u
#define BASE     0x555500000000u
#define NODES    24u
#define FORMATS  5u

static uint64_t random_next(uint64_t *r)
{
	*r = *r * 6364136223846793005u + 1442695040888963407u;
	return *r >> 20;
}

/* A number of seldom and often seen sizes. */
static uint64_t random_word(uint64_t *r)
{
	uint64_t v = random_next(r);

	return v & 1 ? v >> (v >> 1 & 31) : ~(v >> (v >> 1 & 31));
}

/* ---- records (linux/perf_event.h) ------------------------------------------------------- */

struct played_mmap {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t start, size, offset;
	uint32_t major, minor;
	uint64_t inode, generation;
	uint32_t prot, flags;
	char path[48];
};

struct played_sample {
	struct perf_event_header header;
	uint64_t ip;
	uint32_t pid, tid;
	uint64_t time, abi, reg[17], size;
	uint64_t stack[STACK / 8];
	uint64_t copied;
};

#define REG_BP 6 /* places in reg[]: enum perf_event_x86_regs, as sampled */
#define REG_SP 7
#define REG_IP 8

/* Where its code is mapped: some of what the program headers say, whatever that is. */
struct mappings {
	uint64_t start[8], size[8];
	unsigned count;
};

static void code_map(struct profile *p, const char *path, uint64_t inode, uint64_t start, uint64_t size, uint64_t offset)
{
	struct played_mmap m = {.header = {PERF_RECORD_MMAP2, 0, sizeof(m)}, .pid = (uint32_t)getpid(), .tid = (uint32_t)getpid(),
	                        .start = start, .size = size, .offset = offset, .inode = inode, .prot = 5};

	snprintf(m.path, sizeof(m.path), "%s", path);
	profile_take(p, &m.header);
}

static void file_map(struct profile *p, const uint8_t *data, size_t size, const char *path, struct mappings *out)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	struct stat st;
	unsigned i;

	memcpy(&eh, data, sizeof(eh));
	if (stat(path, &st))
		abort();
	for (i = 0; i < eh.e_phnum && out->count < 8; i++) {
		if (eh.e_phoff > size || (size - eh.e_phoff) / sizeof(ph) <= i)
			break;
		memcpy(&ph, data + eh.e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_type != PT_LOAD || !(ph.p_flags & PF_X))
			continue;
		out->start[out->count] = BASE + (ph.p_vaddr & ~4095ull);
		out->size[out->count] = ph.p_memsz < 1u << 30 ? (ph.p_memsz + 8191) & ~4095ull : 1u << 30;
		code_map(p, path, st.st_ino, out->start[out->count], out->size[out->count], ph.p_offset & ~4095ull);
		out->count++;
	}
	if (!out->count) {
		out->start[0] = BASE;
		out->size[0] = 0x10000;
		code_map(p, path, st.st_ino, BASE, 0x10000, 0);
		out->count = 1;
	}
}

static uint64_t code_address(const struct mappings *m, uint64_t *r)
{
	unsigned i = (unsigned)(random_next(r) % m->count);
	uint64_t size = m->size[i] < 0x4000 ? m->size[i] : 0x4000;

	return m->start[i] + random_next(r) % (size + 1);
}

static void sample_take(struct profile *p, const struct mappings *m, uint64_t *r, uint64_t time)
{
	struct played_sample s = {.header = {PERF_RECORD_SAMPLE, 0, sizeof(s)}, .pid = (uint32_t)getpid(), .tid = (uint32_t)getpid(),
	                          .time = time, .abi = PERF_SAMPLE_REGS_ABI_64, .size = STACK, .copied = STACK};
	unsigned i;

	for (i = 0; i < 17; i++)
		s.reg[i] = random_next(r) % 3 ? STACK_AT + 8 * (random_next(r) % (STACK / 8)) : random_word(r);
	s.reg[REG_SP] = random_next(r) % 16 ? STACK_AT : random_word(r);
	s.reg[REG_BP] = s.reg[REG_SP] + 8 * (random_next(r) % (STACK / 8));
	s.ip = s.reg[REG_IP] = code_address(m, r);
	for (i = 0; i < STACK / 8; i++)
		switch (random_next(r) % 4) {
		case 0: s.stack[i] = random_word(r); break;
		case 1: s.stack[i] = s.reg[REG_SP] + 8 * (i + random_next(r) % 16); break;
		default: s.stack[i] = code_address(m, r);
		}
	if (!(random_next(r) % 8))
		s.copied = random_next(r) % (STACK + 16);
	profile_take(p, &s.header);
}

/* ---- formats ---------------------------------------------------------------------------- */

static void profile_show(struct profile *p, unsigned format)
{
	struct fuzz_out out;
	bool done;

	must(profile_name(p, format != 0));
	fuzz_print(&out);
	switch (format) {
	case 0: done = write_folded(p, stdout); break;
	case 1: done = write_svg(p, "a title", stdout); break;
	case 2: done = write_firefox(p, "a title", stdout); break;
	case 3: done = write_top(p, 20, false, stdout); break;
	default: done = write_pprof(p, stdout);
	}
	must(done);
	if (format < 4) {
		fuzz_printed(&out, format == 2);
	} else {
		fclose(stdout);
		stdout = out.before;
		free(out.text);
	}
}

void fuzz_profile_how(const uint8_t *data, size_t size, unsigned how)
{
	struct profile *p = profile_new();
	struct mappings m = {.count = 0};
	uint64_t r = how;
	char path[32];
	unsigned i;
	int fd;

	if (!p || size < sizeof(Elf64_Ehdr))
		abort();
	fd = fuzz_path(data, size, path);
	p->period = 1000000;
	p->stack = STACK;
	file_map(p, data, size, path, &m);
	for (i = 0; i < SAMPLES; i++)
		sample_take(p, &m, &r, i + 1);
	profile_end(p, SAMPLES + 1);
	must(p->sample_count == SAMPLES && !p->no_memory);
	profile_show(p, how % FORMATS);
	profile_free(p);
	close(fd);
}

/* ---- a recording of etch heap --------------------------------------------------------------- */

struct recording {
	struct heap_head head;
	struct heap_leaf leaves[NODES];
	struct heap_node nodes[NODES];
	union {
		struct heap_module module;
		uint8_t capacity[sizeof(struct heap_module) + 40];
	} modules[2];
};
_Static_assert(sizeof(((struct recording *)0)->modules[0]) % 8 == 0, "records are multiples of 8 bytes");

static bool recording_read(void *context, uint64_t at, void *to, size_t size)
{
	if (at > sizeof(struct recording) || size > sizeof(struct recording) - at)
		return false;
	memcpy(to, (const uint8_t *)context + at, size);
	return true;
}

static void recording_make(struct recording *c, const char *path, uint64_t inode, uint64_t *r)
{
	unsigned i;

	memset(c, 0, sizeof(*c));
	c->head = (struct heap_head){.magic = HEAP_MAGIC, .version = HEAP_VERSION, .pid = getpid(), .name = "a name of 16 by",
	                             .node_at = offsetof(struct recording, nodes), .leaf_at = offsetof(struct recording, leaves),
	                             .module_at = offsetof(struct recording, modules), .node_count = NODES, .leaf_count = NODES,
	                             .module_size = sizeof(c->modules), .change = 9, .peak_change = random_next(r) % 12};
	for (i = 1; i < NODES; i++) {
		c->nodes[i] = (struct heap_node){.ip = i < 3 ? i - 1 : BASE + random_next(r) % 0x8000, .module = (uint16_t)(random_next(r) % 4),
		                                 .parent = i < 3 ? 0 : 1 + (uint32_t)(random_next(r) % (i - 1))};
		c->leaves[i] = (struct heap_leaf){.live = {random_next(r), 1}, .total = {random_word(r), 2}, .peak = {random_next(r), 1},
		                                  .change = random_next(r) % 12, .node = 3 + (uint32_t)(random_next(r) % (NODES - 3))};
	}
	for (i = 0; i < 2; i++) {
		c->modules[i].module = (struct heap_module){.size = sizeof(c->modules[i]), .start = BASE, .end = BASE + 0x10000, .bias = BASE,
		                                            .inode = inode};
		snprintf((char *)c->modules[i].capacity + sizeof(struct heap_module), 32, "%s", i ? "/nowhere" : path);
	}
}

/* Some fields are something else: as a process that is not well would leave it. */
static void recording_damage(struct recording *c, uint64_t *r)
{
	uint64_t n = random_next(r) % 4;

	while (n--) {
		uint64_t at = (random_next(r) % 3 ? random_next(r) % sizeof(*c) : random_next(r) % sizeof(c->head)) & ~3ull, v = random_word(r);

		memcpy((uint8_t *)c + at, &v, 4);
	}
}

void fuzz_heap_how(const uint8_t *data, size_t size, unsigned how)
{
	struct heap_profile h = {.profile = profile_new(), .measure = how % MEASURE_COUNT};
	struct heap_image im;
	struct recording c;
	uint64_t r = how;
	struct stat st;
	struct error e;
	char path[32];
	int fd = fuzz_path(data, size, path);

	if (!h.profile || fstat(fd, &st))
		abort();
	recording_make(&c, path, st.st_ino, &r);
	recording_damage(&c, &r);
	if (!heap_image_read(&im, recording_read, &c, sizeof(c) + 4096, &e)) {
		heap_files_open(&h, &im);
		must(heap_profile_add(&h, &im, NULL));
		profile_show(h.profile, how / 4 % FORMATS);
	} else {
		must(*e.text);
	}
	heap_image_free(&im);
	profile_free(h.profile);
	close(fd);
}
