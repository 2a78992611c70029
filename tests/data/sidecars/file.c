/* SPDX-License-Identifier: MIT */
/*
 * tests/data/sidecars: `old` is the table of `file`, and `old.state` the note of its update, as `etch tables update` made
 * them when a sidecar had no head (build of 2026-11-28). For tests/tables/test_tables.py. `file` is this, by
 * gcc -O1 -fno-inline -shared -fPIC -nostdlib -Wl,-z,noseparate-code -Wl,--build-id=sha1, stripped.
 */
int f(int x) { return x + 1; }
int g(int x) { return f(x) * 3; }
