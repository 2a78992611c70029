# SPDX-License-Identifier: MIT
sub fib(Int $n) { $n < 2 ?? $n !! fib($n - 1) + fib($n - 2) }
sub deep(Int $n) { die 'deep' unless $n; deep($n - 1) + 1 }
say fib(17);
say (^30).map(* * 7919 % 997).sort;
{ deep(50); CATCH { default { say .message } } }
say 'to be or not to be'.words.Bag.sort(*.key);
say 'ab-12 cd-34'.subst(/(\w+) '-' (\d+)/, { "$1-$0" }, :g), 3 ** 200;
say await (1 .. 4).map: -> $i { start { [+] ^($i * 1000) } };
