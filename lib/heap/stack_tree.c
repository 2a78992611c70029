/* SPDX-License-Identifier: MIT */
/*
 * stack_tree.c: the nodes of the file, in a hash table with open addressing, which is at most three quarters full.
 *
 * The hash of a node is one of all addresses from the outermost frame on. So the node of a stack's innermost frame is
 * found at once, and its parents are compared with the other frames: they were added together and are neighbours in
 * memory. Only a stack that is new is looked up frame by frame.
 */
#include "heap/stack_tree.h"

#define SLOTS_FIRST 8192u

struct slot {
	uint32_t node; /* its number; 0: free */
	uint32_t hash;
};

static struct {
	struct slot *slots;
	uint64_t mask;
	uint64_t unloads;
} tree;

#define IP_MASK 0xffffffffffffu /* the bits of heap_node.ip */

static inline uint32_t hash_of(uint32_t parent_hash, uint64_t ip)
{
	return (uint32_t)((parent_hash ^ ip) * 0x9e3779b97f4a7c15u >> 32);
}

static void slot_take(uint32_t node, uint32_t hash)
{
	uint64_t i = hash & tree.mask;

	while (tree.slots[i].node)
		i = (i + 1) & tree.mask;
	tree.slots[i] = (struct slot){node, hash};
}

static bool grow(void)
{
	uint64_t count = tree.slots ? 2 * (tree.mask + 1) : SLOTS_FIRST, old = tree.slots ? tree.mask + 1 : 0;
	struct slot *slots = recorder_map(count * sizeof(*slots)), *was = tree.slots;

	if (!slots)
		return false;
	tree.slots = slots;
	tree.mask = count - 1;
	for (uint64_t i = 0; i < old; i++)
		if (was[i].node)
			slot_take(was[i].node, was[i].hash);
	recorder_unmap(was, old * sizeof(*was));
	return true;
}

static inline bool node_is(const struct heap_node *n, uint32_t parent, uint64_t ip)
{
	return n->parent == parent && n->ip == ip;
}

/* Adds a node that the table does not have. Returns 0 if it does not fit. */
static __attribute__((noinline)) uint32_t node_add(uint32_t parent, uint64_t ip, uint32_t hash)
{
	struct heap_node *nodes;
	uint64_t count = recording.head->node_count;

	if ((!tree.slots || count > (tree.mask + 1) / 4 * 3) && !grow())
		return 0;
	if (!region_has(&recording.nodes, (count + 1) * sizeof(*nodes)))
		return 0;
	nodes = (void *)recording.nodes.at;
	nodes[count] = (struct heap_node){.ip = ip, .parent = parent, .module = parent ? module_number(ip - 1) : 0};
	slot_take((uint32_t)count, hash);
	__atomic_store_n(&recording.head->node_count, count + 1, __ATOMIC_RELEASE);
	return (uint32_t)count;
}

/* The node of a frame, which is added if it is new; 0 if it does not fit. likely: a node that it may be, or 0. */
static uint32_t node_of(uint32_t parent, uint64_t ip, uint32_t hash, uint32_t likely)
{
	const struct heap_node *nodes = (void *)recording.nodes.at;

	if (likely && node_is(&nodes[likely], parent, ip))
		return likely;
	if (tree.slots)
		for (uint64_t i = hash & tree.mask; tree.slots[i].node; i = (i + 1) & tree.mask)
			if (tree.slots[i].hash == hash && node_is(&nodes[tree.slots[i].node], parent, ip))
				return tree.slots[i].node;
	return node_add(parent, ip, hash);
}

/* ---- stacks ---------------------------------------------------------------------- */

/* What tree_leaf() looks for. */
struct wanted {
	void *const *ips;
	struct tree_frame *frames;
	unsigned count, known;
	uint64_t root; /* ip of the node outside the outermost frame */
};

/* The masked address of frame k, the outermost being frame 0. */
static inline uint64_t wanted_ip(const struct wanted *w, unsigned k)
{
	return (uint64_t)(uintptr_t)w->ips[w->count - 1 - k] & IP_MASK;
}

/* Is this the node of the whole stack? If so, frames[] gets its parents. */
static inline bool is_stack(const struct wanted *w, uint32_t node)
{
	const struct heap_node *nodes = (void *)recording.nodes.at;

	for (unsigned k = w->count; k-- > w->known; node = nodes[node].parent) {
		if (nodes[node].ip != wanted_ip(w, k))
			return false;
		w->frames[k].node = node;
	}
	return w->known ? node == w->frames[w->known - 1].node : node && node_is(&nodes[node], 0, w->root);
}

/* The node of a stack that has been recorded before; 0 if it has not. */
static inline uint32_t stack_find(const struct wanted *w)
{
	uint32_t hash = w->frames[w->count - 1].hash;

	if (tree.slots)
		for (uint64_t i = hash & tree.mask; tree.slots[i].node; i = (i + 1) & tree.mask)
			if (tree.slots[i].hash == hash && is_stack(w, tree.slots[i].node))
				return tree.slots[i].node;
	return 0;
}

/* The node of a new stack; 0 if it does not fit. */
static __attribute__((noinline)) uint32_t stack_add(const struct wanted *w)
{
	uint32_t node = w->known ? w->frames[w->known - 1].node : node_of(0, w->root, hash_of(0, w->root), 0);

	for (unsigned k = w->known; node && k < w->count; k++)
		node = w->frames[k].node = node_of(node, wanted_ip(w, k), w->frames[k].hash, w->frames[k].node);
	return node;
}

static uint32_t leaf_of(uint32_t node)
{
	struct heap_node *n = (struct heap_node *)(void *)recording.nodes.at + node;
	uint64_t count = recording.head->leaf_count;
	struct heap_leaf *leaves;

	if (n->leaf)
		return n->leaf;
	if (!region_has(&recording.leaves, (count + 1) * sizeof(*leaves)))
		return 0;
	leaves = (void *)recording.leaves.at;
	leaves[count] = (struct heap_leaf){.node = node};
	n->leaf = (uint32_t)count;
	__atomic_store_n(&recording.head->leaf_count, count + 1, __ATOMIC_RELEASE);
	return n->leaf;
}

uint32_t tree_leaf(void *const *ips, struct tree_frame *frames, unsigned count, unsigned known, enum heap_stop stop)
{
	const struct wanted w = {ips, frames, count, known, (tree.unloads << 8 | (uint64_t)stop) & IP_MASK};
	uint32_t hash = known ? frames[known - 1].hash : hash_of(0, w.root), node;

	for (unsigned k = known; k < count; k++)
		frames[k].hash = hash = hash_of(hash, wanted_ip(&w, k));
	node = known == count ? frames[known - 1].node : stack_find(&w);
	if (!node)
		node = stack_add(&w);
	return node ? leaf_of(node) : 0;
}

void tree_unloaded(void)
{
	tree.unloads++;
	modules_forget();
}

void tree_clear(void)
{
	recorder_unmap(tree.slots, tree.slots ? (tree.mask + 1) * sizeof(*tree.slots) : 0);
	tree.slots = NULL;
	tree.mask = tree.unloads = 0;
	modules_clear();
}
