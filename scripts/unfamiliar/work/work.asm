; SPDX-License-Identifier: MIT
        global _start
        section .text
fib:    push rbx
        push r12
        mov rbx, rdi
        mov rax, rdi
        cmp rdi, 2
        jb .out
        lea rdi, [rbx-1]
        call fib
        mov r12, rax
        lea rdi, [rbx-2]
        call fib
        add rax, r12
.out:   pop r12
        pop rbx
        ret
        align 32
print:  push rbp
        mov rbp, rsp
        sub rsp, 32
        lea rsi, [rbp-1]
        mov byte [rsi], 10
        mov rax, rdi
        mov ecx, 10
.next:  xor edx, edx
        div rcx
        add dl, '0'
        dec rsi
        mov [rsi], dl
        test rax, rax
        jnz .next
        mov rdx, rbp
        sub rdx, rsi
        mov edi, 1
        mov eax, 1
        syscall
        leave
        ret
        align 16
_start: mov edi, 17
        call fib
        mov rdi, rax
        call print
        xor edi, edi
        mov eax, 60
        syscall
