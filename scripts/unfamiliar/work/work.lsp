; SPDX-License-Identifier: MIT
(define (fib n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(println (fib 18) " " (catch (dolist (x '(1 2 3 4)) (if (> x 2) (throw x)))))
(println (sort (map (fn (x) (% (* x 7919) 997)) (sequence 1 30))) (replace "(\\w+)-(\\d+)" "ab-12 cd-34" (string $2 "-" $1) 0))
(exit)
