#lang racket/base
; SPDX-License-Identifier: MIT
(require racket/list)
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(define (deep n) (if (= n 0) (error "deep") (+ 1 (deep (- n 1)))))
(displayln (fib 20))
(displayln (with-handlers ([exn:fail? exn-message]) (deep 200)))
(displayln (sort (map (lambda (i) (modulo (* i 7919) 997)) (range 30)) <))
(displayln (call/cc (lambda (k) (for ([i 10]) (when (= i 7) (k i))))))
(displayln (regexp-replace* #px"(\\w+)-(\\d+)" "ab-12 cd-34" "\\2-\\1"))
(displayln (expt 3 200))
(define t (thread (lambda () (displayln (for/sum ([i 1000]) i)))))
(thread-wait t)
