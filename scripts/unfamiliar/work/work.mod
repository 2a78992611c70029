(* SPDX-License-Identifier: MIT *)
MODULE work;
FROM StrIO IMPORT WriteString, WriteLn;
FROM NumberIO IMPORT WriteCard;
VAR i, s: CARDINAL; v: ARRAY [0..49] OF CARDINAL;
PROCEDURE Fib(n: CARDINAL): CARDINAL;
BEGIN IF n < 2 THEN RETURN n ELSE RETURN Fib(n-1) + Fib(n-2) END END Fib;
PROCEDURE Kind(n: CARDINAL): CARDINAL;
BEGIN CASE n MOD 7 OF 0: RETURN 3 | 1: RETURN 9 | 2: RETURN 4 | 3: RETURN 1 | 4: RETURN 12 ELSE RETURN 0 END END Kind;
BEGIN
  s := 0;
  FOR i := 0 TO 49 DO v[i] := Kind(i) * i; s := s + v[i] END;
  WriteCard(s, 6); WriteCard(Fib(18), 8); WriteLn
END work.
