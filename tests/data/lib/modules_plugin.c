/* SPDX-License-Identifier: MIT */
/* A plugin: reads the library's objects, and one of its own; with STORES it also
 * stores plainly to one, which no tool knew when the library was linked. */
#include "modules.h"

DEFINE_IMV(int, own) = 40;

int plugin_flag(void);
long plugin_conf(void);
int plugin_own(void);
int plugin_set_own(int v);
int plugin_set_flag(int v);
void plugin_store_flag(int v);

int plugin_flag(void) { return imv_read(flag); }
long plugin_conf(void) { return conf.a + conf.b + conf.c; }
int plugin_own(void) { return imv_read(own); }
int plugin_set_own(int v) { return imv_set(own, v); }
int plugin_set_flag(int v) { return imv_set(flag, v); }
#ifdef STORES
void plugin_store_flag(int v) { flag__imv = v; }
#endif
