/* SPDX-License-Identifier: MIT */
/* A function of a shared object, for calls.c to call through the PLT. */
long add_one_shared(long x);
long add_one_shared(long x)
{
	return x + 1;
}
