\ SPDX-License-Identifier: MIT
: fib ( n -- f ) dup 2 < if exit then dup 1- recurse swap 2 - recurse + ;
: deep ( n -- ) ?dup 0= if 42 throw then 1- recurse ;
: kind ( c -- n ) case [char] a of 1 endof [char] b of 4 endof [char] c of 9 endof 0 swap endcase ;
create v 30 cells allot
: fill-v 30 0 do i 7919 * 997 mod i cells v + ! loop ;
: kinds ( addr n -- sum ) 0 rot rot over + swap do i c@ kind + loop ;
: sum-v 0 30 0 do i cells v + @ + loop ;
fill-v 20 fib . sum-v . 100 ' deep catch . drop cr
s" abcabc" kinds . 1.5e fsin f. cr
bye
