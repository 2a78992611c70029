! SPDX-License-Identifier: MIT
program work
  implicit none
  integer :: i, j
  real(8) :: a(8,8), s
  do i = 1, 8
    do j = 1, 8
      a(i,j) = 1d0 / (i + j - 1)
    end do
  end do
  s = 0
  do i = 1, 8
    s = s + dot_product(a(i,:), a(:,i))
  end do
  print '(f12.8,1x,i6)', s, fib(18)
contains
  recursive function fib(n) result(r)
    integer, intent(in) :: n
    integer :: r
    if (n < 2) then
      r = n
    else
      r = fib(n-1) + fib(n-2)
    end if
  end function
end program
