/* SPDX-License-Identifier: MIT */
numeric digits 60
say fib(15) 3**100
do i = 1 to 10; v.i = (i * 7919) // 997; end
s = 0
do i = 1 to 10; s = s + v.i; end
say s translate('abracadabra', 'XYZ', 'abc') reverse('etch') wordpos('be', 'to be or not to be')
signal on syntax name odd
x = 'a' + 1
odd: say 'caught' rc
parse value 'ab-12 cd-34' with a '-' b . '-' c
say a b c datatype(b)
exit 0
fib: procedure; parse arg n; if n < 2 then return n; return fib(n - 1) + fib(n - 2)
