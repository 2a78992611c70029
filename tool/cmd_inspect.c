/* SPDX-License-Identifier: MIT */
#include "command.h"
int cmd_inspect(int argc, char **argv){(void)argc;(void)argv;return 2;}
