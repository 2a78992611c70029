/* SPDX-License-Identifier: MIT */
/*
 * shared/sidecars.h: where tables of files that have none of their own are looked for, as FILE/BUILD-ID, in this
 * order; behind these, a table is made from .eh_frame. Internal to etch.
 */
#ifndef ETCH_LIB_SHARED_SIDECARS_H
#define ETCH_LIB_SHARED_SIDECARS_H

#define SIDECARS_VARIABLE "ETCH_SIDECAR_DIR"     /* 1: the user's; ignored in set-user-ID programs */
#define SIDECARS_PACKAGED "/usr/lib/etch/unwind" /* 2: what a package brings */
#define SIDECARS_CACHE    "/var/cache/etch"      /* 3: what `etch tables update` keeps */

#endif
