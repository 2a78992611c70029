/* SPDX-License-Identifier: MIT */
#include "tool_template.h"

extern "C" long template_long(const long *p) { return template_read(p); }
extern "C" long template_again(const int *p) { return template_read(p) + 2; }
