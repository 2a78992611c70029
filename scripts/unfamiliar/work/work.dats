// SPDX-License-Identifier: MIT
#include "share/atspre_staload.hats"
fun fib (n: int): int = if n < 2 then n else fib (n-1) + fib (n-2)
fun loop (i: int): void = if i < 12 then (print! (fib (i), " "); loop (i+1))
implement main0 () = (loop (0); println! (fib (20)))
