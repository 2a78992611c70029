/* SPDX-License-Identifier: MIT */
/* stack_tree.c: the nodes of the file, found by a hash of (parent, address). The hash table uses open addressing and
 * is at most half full. */
#include "heap/stack_tree.h"

#define SLOTS_FIRST 8192u

static struct {
	uint32_t *slots; /* number of a node; 0: free */
	uint64_t mask;
	uint64_t unloads;
} tree;

static inline uint64_t place(uint32_t parent, uint64_t ip)
{
	uint64_t h = (ip ^ (uint64_t)parent << 40 ^ parent) * 0x9e3779b97f4a7c15u;

	return (h ^ h >> 32) & tree.mask;
}

static bool grow(uint64_t used)
{
	uint64_t count = tree.slots ? 2 * (tree.mask + 1) : SLOTS_FIRST, old = tree.slots ? tree.mask + 1 : 0;
	const struct heap_node *nodes = (void *)recording.nodes.at;
	uint32_t *slots = recorder_map(count * sizeof(*slots)), *was = tree.slots;

	if (!slots)
		return false;
	tree.slots = slots;
	tree.mask = count - 1;
	for (uint64_t n = 1; n < used; n++) {
		uint64_t i = place(nodes[n].parent, nodes[n].ip);

		while (slots[i])
			i = (i + 1) & tree.mask;
		slots[i] = (uint32_t)n;
	}
	recorder_unmap(was, old * sizeof(*was));
	return true;
}

#define IP_MASK 0xffffffffffffu /* the bits of heap_node.ip */

static inline bool node_is(const struct heap_node *n, uint32_t parent, uint64_t ip)
{
	return n->parent == parent && n->ip == ip;
}

/* Adds a node that the table does not have. Returns 0 if it does not fit. */
static __attribute__((noinline)) uint32_t node_add(uint32_t parent, uint64_t ip)
{
	struct heap_node *nodes;
	uint64_t count = recording.head->node_count, i;

	if ((!tree.slots || 2 * count > tree.mask) && !grow(count))
		return 0;
	if (!region_has(&recording.nodes, (count + 1) * sizeof(*nodes)))
		return 0;
	for (i = place(parent, ip); tree.slots[i]; i = (i + 1) & tree.mask)
		;
	nodes = (void *)recording.nodes.at;
	nodes[count] = (struct heap_node){.ip = ip, .parent = parent, .module = parent ? module_number(ip - 1) : 0};
	tree.slots[i] = (uint32_t)count;
	__atomic_store_n(&recording.head->node_count, count + 1, __ATOMIC_RELEASE);
	return (uint32_t)count;
}

/* The node of a frame, which is added if it is new; 0 if it does not fit. likely: a node that it may be, or 0. */
static inline uint32_t node_of(uint32_t parent, uint64_t ip, uint32_t likely)
{
	const struct heap_node *nodes = (void *)recording.nodes.at;

	if (likely && node_is(&nodes[likely], parent, ip))
		return likely;
	if (tree.slots)
		for (uint64_t i = place(parent, ip); tree.slots[i]; i = (i + 1) & tree.mask)
			if (node_is(&nodes[tree.slots[i]], parent, ip))
				return tree.slots[i];
	return node_add(parent, ip);
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

uint32_t tree_leaf(void *const *ips, uint32_t *nodes, unsigned count, unsigned known, enum heap_stop stop)
{
	uint32_t node;

	if (known)
		node = nodes[known - 1];
	else
		node = node_of(0, (tree.unloads << 8 | (uint64_t)stop) & IP_MASK, 0);
	for (unsigned k = known; node && k < count; k++) {
		node = node_of(node, (uint64_t)(uintptr_t)ips[count - 1 - k] & IP_MASK, nodes[k]);
		nodes[k] = node;
	}
	if (!node)
		return 0;
	return leaf_of(node);
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
