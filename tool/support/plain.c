/* SPDX-License-Identifier: MIT */
/* Replaces control characters (plain.h). */
#include "support/plain.h"

void plain(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}
