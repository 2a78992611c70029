/* SPDX-License-Identifier: MIT */
/* M(p00..0) ... M(p33..3): a macro for 4, 16 ... 4,096 names that start with p. */
#ifndef REPEAT_H
#define REPEAT_H
#define REPEAT4(M, p) M(p##0) M(p##1) M(p##2) M(p##3)
#define REPEAT16(M, p) REPEAT4(M, p##0) REPEAT4(M, p##1) REPEAT4(M, p##2) REPEAT4(M, p##3)
#define REPEAT64(M, p) REPEAT16(M, p##0) REPEAT16(M, p##1) REPEAT16(M, p##2) REPEAT16(M, p##3)
#define REPEAT256(M, p) REPEAT64(M, p##0) REPEAT64(M, p##1) REPEAT64(M, p##2) REPEAT64(M, p##3)
#define REPEAT1024(M, p) REPEAT256(M, p##0) REPEAT256(M, p##1) REPEAT256(M, p##2) REPEAT256(M, p##3)
#define REPEAT4096(M, p) REPEAT1024(M, p##0) REPEAT1024(M, p##1) REPEAT1024(M, p##2) REPEAT1024(M, p##3)
#endif
