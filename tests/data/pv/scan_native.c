/* SPDX-License-Identifier: MIT */
/* Sequences, and what the tool is to make of each: one (instruction, inlined and
 * padded), many (inlined where they fit), or the reason of its ETCH-P001. */
#include <etch/pv.h>

PV_NATIVE(n_store, "mov %rsi,(%rdi)");                        /* WANT one */
PV_NATIVE(n_tsc, "rdtsc; shl $32,%rdx; or %rdx,%rax");        /* WANT many */
PV_NATIVE(n_empty, "");                                       /* WANT one */
PV_NATIVE(n_cld, "cld");                                      /* WANT one */
PV_NATIVE(n_lea, "lea 1(%rdi,%rsi,4),%rax");                  /* WANT one */
PV_NATIVE(n_lock, "lock; incl (%rdi)");                       /* WANT one */
PV_NATIVE(n_string, "rep movsb");                             /* WANT one */
PV_NATIVE(n_sse, "addsd %xmm1,%xmm0");                        /* WANT one */
PV_NATIVE(n_vex, "vaddsd %xmm1,%xmm0,%xmm0");                 /* WANT one */
PV_NATIVE(n_popcnt, "popcnt %rdi,%rax");                      /* WANT one */
PV_NATIVE(n_nine, "movabs $0x1122334455667788,%rax");         /* WANT one */
PV_NATIVE(n_thread, "mov %fs:0,%rax");                        /* WANT many */
PV_NATIVE(n_segment, "mov %ss:(%rdi),%rax");                  /* WANT many */
PV_NATIVE(n_reads_kept, "mov %rbp,%rax");                     /* WANT one */
PV_NATIVE(n_most, "movabs $0x1122334455667788,%rax; nop; nop; nop; nop; nop"); /* WANT many */
PV_NATIVE(n_push, "push %rdi; pop %rax");                     /* WANT it uses the stack */
PV_NATIVE(n_pushf, "pushf; pop %rax");                        /* WANT it uses the stack */
PV_NATIVE(n_red_zone, "mov %rdi,-8(%rsp)");                   /* WANT it uses the stack */
PV_NATIVE(n_sp, "mov %rsp,%rax");                             /* WANT it uses the stack */
PV_NATIVE(n_leave, "leave");                                  /* WANT it */
PV_NATIVE(n_enter, "enter $8,$0");                            /* WANT it */
PV_NATIVE(n_rbx, "mov %rdi,%rbx");                            /* WANT it changes a callee-saved register */
PV_NATIVE(n_bpl, "mov %dil,%bpl");                            /* WANT it changes a callee-saved register */
PV_NATIVE(n_r12, "xor %r12d,%r12d");                          /* WANT it changes a callee-saved register */
PV_NATIVE(n_cpuid, "cpuid");                                  /* WANT it changes a callee-saved register */
PV_NATIVE(n_xchg, "xchg %rdi,%r15");                          /* WANT it changes a callee-saved register */
PV_NATIVE(n_rip, "lea 0(%rip),%rax");                         /* WANT it has an operand relative to %rip */
PV_NATIVE(n_rip_store, "mov %rdi,n_place(%rip)");             /* WANT it has an operand relative to %rip */
PV_NATIVE(n_std, "std");                                      /* WANT it changes the direction flag */
PV_NATIVE(n_jump, "jmp 1f; 1:");                              /* WANT it branches */
PV_NATIVE(n_branch, "test %edi,%edi; jz 1f; 1:");             /* WANT it branches */
PV_NATIVE(n_loop, "loop .");                                  /* WANT it branches */
PV_NATIVE(n_call, "call *%rdi");                              /* WANT it branches */
PV_NATIVE(n_ret, "mov %rdi,%rax; ret");                       /* WANT it branches */
PV_NATIVE(n_syscall, "syscall");                              /* WANT it enters the kernel, or traps */
PV_NATIVE(n_int3, "int3");                                    /* WANT it enters the kernel, or traps */
PV_NATIVE(n_ud2, "ud2");                                      /* WANT it stops execution */
PV_NATIVE(n_mxcsr, "ldmxcsr (%rdi)");                         /* WANT it changes a system register */
PV_NATIVE(n_fld, "fldl (%rdi)");                              /* WANT it uses the x87 stack */
PV_NATIVE(n_fs, "wrfsbase %rdi");                             /* WANT it changes processor state */
PV_NATIVE(n_half, ".byte 0x48, 0x8b");                        /* WANT it does not decode into whole instructions */
PV_NATIVE(n_prefix, "nop; .byte 0x2e");                       /* WANT it does not decode into whole instructions */
/* 16 bytes. */
PV_NATIVE(n_long, "movabs $0x1122334455667788,%rax; nop; nop; nop; nop; nop; nop"); /* WANT it is too long */

long n_place;
int main(void) { return 0; }
