/* SPDX-License-Identifier: MIT */
/* Calls what a shared object made of rewrite_main.c does. */
int run(void);
int main(void) { return run(); }
