(* SPDX-License-Identifier: MIT *)
exception Odd of int
fun fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)
fun deep 0 = raise Odd 42
  | deep n = deep (n - 1) + 1
fun insert (x, []) = [x]
  | insert (x, y :: ys) = if x <= y then x :: y :: ys else y :: insert (x, ys)
fun kind #"a" = 1 | kind #"b" = 4 | kind #"c" = 9 | kind #"d" = 16 | kind #"e" = 25 | kind _ = 0
fun power (b : IntInf.int, 0) = 1
  | power (b, n) = b * power (b, n - 1)
fun main () =
  ( print (Int.toString (fib 20) ^ "\n")
  ; print (Int.toString ((deep 200) handle Odd n => n) ^ "\n")
  ; print (String.concatWith " " (map Int.toString (foldl insert [] (List.tabulate (30, fn i => i * 7919 mod 997)))) ^ "\n")
  ; print (Int.toString (foldl (fn (c, s) => s + kind c) 0 (explode "abracadabra, decade")) ^ "\n")
  ; print (IntInf.toString (power (3, 200)) ^ " " ^ Real.fmt (StringCvt.FIX (SOME 6)) (Math.sin 1.5) ^ "\n") )
