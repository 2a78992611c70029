% SPDX-License-Identifier: MIT
:- initialization(main).
fib(N, N) :- N < 2, !.
fib(N, F) :- A is N - 1, B is N - 2, fib(A, X), fib(B, Y), F is X + Y.
queens(N, Qs) :- findall(I, between(1, N, I), Is), place(Is, [], Qs).
place([], Qs, Qs).
place(Is, Placed, Qs) :- select(Q, Is, Rest), safe(Q, 1, Placed), place(Rest, [Q|Placed], Qs).
safe(_, _, []).
safe(Q, D, [P|Ps]) :- Q =\= P + D, Q =\= P - D, E is D + 1, safe(Q, E, Ps).
deep(0) :- throw(odd(42)).
deep(N) :- M is N - 1, deep(M), true.
main :- fib(15, F), write(F), nl, queens(6, Q), write(Q), nl, catch(deep(100), odd(X), (write(caught(X)), nl)),
        findall(N-C, (member(C, [c, a, b]), atom_length(C, N)), L), msort(L, S), write(S), nl,
        atom_codes(A, "etch"), atom_length(A, Len), write(A/Len), nl, halt.
