// SPDX-License-Identifier: MIT
/*
 * regex.cc: an exception of <regex>, for zoo.cc. It is compiled once for all builds of the zoo, since this header takes the
 * compiler as long as all the rest of it.
 */
#include <regex>

void bad_regex(const char *pattern);

void bad_regex(const char *pattern)
{
	std::regex r(pattern);
}
