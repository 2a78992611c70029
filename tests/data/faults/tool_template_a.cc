/* SPDX-License-Identifier: MIT */
#include "tool_template.h"

extern "C" long template_int(const int *p) { return template_read(p); }
extern "C" long template_both(const int *p) { return template_read(p) + 1; }
