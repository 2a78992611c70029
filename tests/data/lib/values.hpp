/* SPDX-License-Identifier: MIT */
/* values.hpp: what the two files of tests/headers/test_values.py share: values of every kind of static storage. */
#include <etch/imv.hpp>

enum class mode : unsigned char { off, on };

inline etch::value<bool> shared{true};
template <class T> etch::value<T> per_type{T(3)};
struct counters {
	static etch::value<int> defined;
	static inline etch::value<int> in_class{9};
	int neighbour = 0;
	etch::value<short> small{-4};
	etch::value<double> ratio{1.5};
};
namespace app
{
extern etch::value<long> limit;
extern etch::value<const char *> label;
} // namespace app
extern counters table[2];

int other_sum();
void other_set(int to);
