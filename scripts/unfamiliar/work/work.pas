{ SPDX-License-Identifier: MIT }
{$mode objfpc}
program work;
uses SysUtils, Classes;
type
  Odd = class(Exception);
var
  List: TStringList;
  I, S: Integer;
function Fib(N: Integer): Int64;
begin
  if N < 2 then Fib := N else Fib := Fib(N - 1) + Fib(N - 2);
end;
function Deep(N: Integer): Integer;
begin
  if N = 0 then raise Odd.Create('deep');
  Deep := Deep(N - 1) + 1;
end;
function Kind(C: Char): Integer;
begin
  case C of 'a': Kind := 1; 'b': Kind := 4; 'c': Kind := 9; 'd': Kind := 16; 'e': Kind := 25; 'r': Kind := 36; else Kind := 0; end;
end;
begin
  WriteLn(Fib(20));
  try Deep(50) except on E: Odd do WriteLn(E.Message) end;
  List := TStringList.Create;
  try
    for I := 0 to 29 do List.Add(Format('%.3d', [I * 7919 mod 997]));
    List.Sort;
    WriteLn(List.CommaText);
  finally
    List.Free
  end;
  S := 0;
  for I := 1 to 11 do S := S + Kind('abracadabra'[I]);
  WriteLn(S, ' ', Sin(1.5):0:6);
end.
