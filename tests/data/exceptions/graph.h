// SPDX-License-Identifier: MIT
/*
 * graph.h: what the programs of graph.py are made of.
 */
#ifndef GRAPH_H
#define GRAPH_H

#include <cstdint>

#define NOINLINE __attribute__((noinline))

/* A run: a hash of all that happened in its order, a source of random numbers, and how many calls are left. */
struct State {
	uint64_t h, random;
	int calls;
	long throws;

	void mix(uint64_t v)
	{
		h = (h ^ v) * 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}

	uint32_t next()
	{
		random = random * 6364136223846793005u + 1442695040888963407u;
		return static_cast<uint32_t>(random >> 33);
	}

	bool may_call(int depth) { return depth > 0 && calls-- > 0; }
};

struct Root {
	uint64_t v;
	explicit Root(uint64_t n = 0) : v(n) {}
	virtual ~Root() {}
};
struct Left : Root {
	explicit Left(uint64_t n) : Root(n) {}
};
struct Right : Root {
	explicit Right(uint64_t n) : Root(n) {}
};
struct Near : virtual Root {
	explicit Near(uint64_t n = 0) : Root(n) {}
};
struct Far : virtual Root {
	long capacity = 3;
	explicit Far(uint64_t n = 0) : Root(n) {}
};
struct Diamond : Near, Far {
	explicit Diamond(uint64_t n) : Root(n) {}
};
struct Alone {
	uint64_t v;
	explicit Alone(uint64_t n) : v(n) {}
};

typedef uint64_t Thrower(State &, int depth, long, long, long, long, long, long);
typedef uint64_t Coder(State &, int depth, int *error, uint64_t *value, long, long, long, long, long, long);

/* Its beginning and its end are events. */
struct Local {
	State &s;
	uint64_t id;
	Local(State &state, uint64_t n) : s(state), id(n) { s.mix(id); }
	~Local() { s.mix(~id); }
};

/* ... and its end throws and catches. */
template <Thrower *fn> struct Nested {
	State &s;
	uint64_t id;
	int depth;
	Nested(State &state, uint64_t n, int d) : s(state), id(n), depth(d) { s.mix(id); }
	~Nested()
	{
		s.mix(~id);
		try {
			if (s.may_call(depth))
				s.mix(fn(s, depth / 2, 1, 2, 3, 4, 5, 6));
		} catch (...) {
			s.mix(77);
		}
	}
};

static inline void code_nested(Coder *fn, State &s, int depth)
{
	int e = 0;
	uint64_t v = 0, r;

	if (s.may_call(depth)) {
		r = fn(s, depth / 2, &e, &v, 1, 2, 3, 4, 5, 6);
		s.mix(e ? 77 : r);
	}
}

extern Thrower *const graph_throws[];
extern Coder *const graph_codes[];
extern const unsigned graph_count;

#endif
