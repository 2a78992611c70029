; SPDX-License-Identifier: MIT
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(define (walk k n) (if (= n 0) (k 42) (+ 1 (walk k (- n 1)))))
(display (fib 20)) (newline)
(display (call-with-current-continuation (lambda (k) (walk k 100)))) (newline)
(define v (make-vector 50 0))
(do ((i 0 (+ i 1))) ((= i 50)) (vector-set! v i (* i i)))
(display v) (newline)
