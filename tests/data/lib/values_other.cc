/* SPDX-License-Identifier: MIT */
/* values_other.cc: the second file of tests/headers/test_values.py, which defines what values.cc reads. */
#include "values.hpp"

etch::value<int> counters::defined{2};
counters table[2];
etch::value<long> app::limit = 1L << 40;
etch::value<const char *> app::label{"limit"};

/* The same inline variables and templates as in values.cc. */
int other_sum()
{
	return (shared ? 1 : 0) + per_type<int> + static_cast<int>(per_type<long>) + counters::in_class + counters::defined;
}

void other_set(int to)
{
	shared = to > 0;
	per_type<int> = to;
	per_type<long> = to;
}
