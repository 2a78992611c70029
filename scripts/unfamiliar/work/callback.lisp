; SPDX-License-Identifier: MIT
; libc's qsort calls a compiled Lisp function back.
(use-package :sb-alien)
(define-alien-callable compare int ((a (* int)) (b (* int))) (- (deref a) (deref b)))
(with-alien ((v (array int 9)))
  (dotimes (i 9) (setf (deref v i) (mod (* (+ i 3) 7919) 97)))
  (alien-funcall (extern-alien "qsort" (function void (* t) unsigned-long unsigned-long system-area-pointer))
                 (addr v) 9 4 (alien-sap (alien-callable-function 'compare)))
  (print (loop for i below 9 collect (deref v i))))
