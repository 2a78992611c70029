/* SPDX-License-Identifier: MIT */
/*
 * etch/pv.hpp: a table of functions for C++17 and later, whose calls are direct, or cost nothing.
 *
 *     #include <etch/pv.hpp>
 *
 *     struct codec {
 *             long (*decode)(long);
 *             void (*flush)();
 *     };
 *     etch::ops<codec> active{{pv_ident_64, pv_nop}};  // anywhere that a static variable may be
 *
 *     active->decode(3);                               // one mov; a direct call of any other function
 *     active.store(&codec::flush, log_flush);          // every call, while all threads run
 *     std::error_code ec = active.set({decode_b, pv_nop}); // the whole table, at once or not at all
 *
 * What etch/pv.h says about calls, what they become, and alignment holds, and so does what etch/imv.hpp says about
 * etch::value: where variables may be, memory, and errors. A table is constant-initialized. The tool finds it by the
 * 24 bytes that follow it. Include this header before any function, as you would etch/pv.h.
 */
#ifndef ETCH_PV_HPP
#define ETCH_PV_HPP

#include <etch/pv.h>

#include <etch/imv.hpp>

namespace etch
{

/* A table of functions: a struct of pointers to functions (and of other words that seldom change), of up to 4096
 * bytes. */
template <class T> class ops
{
	static_assert(std::is_trivially_copyable<T>::value && std::is_standard_layout<T>::value && !std::is_const<T>::value,
	              "a table of functions is copied bytewise");
	/* F itself, which the compiler does not deduce from the argument, so that pv_nop and the like convert to it. */
	template <class F> struct plain {
		using type = F;
	};
	static_assert(sizeof(T) % 8 == 0 && alignof(T) <= 8 && sizeof(T) <= ETCH_OPS_MOST,
	              "a table of functions is of words of 8 bytes");

  public:
	using value_type = T;

	constexpr ops(const T &initial) noexcept : held(initial) {}
	ops(const ops &) = delete;
	ops &operator=(const ops &) = delete;

	/* The table, to call through and to read: ops->function(arguments). Async-signal-safe. */
	[[gnu::always_inline]] const T *operator->() const noexcept { return &held; }
	[[gnu::always_inline]] const T &operator*() const noexcept { return held; }

	/* Sets one function, or the whole table, in memory and at every call. Thread-safe; not for signal handlers. */
	template <class F> std::error_code set(F T::*slot, typename plain<F>::type function) noexcept
	{
		return error_code(set_bytes(ETCH_ADDR(held.*slot), held.*slot, function));
	}
	std::error_code set(const T &all) noexcept { return error_code(set_bytes(ETCH_ADDR(held), held, all)); }
	/* Do what set() does, but throw std::system_error instead of returning an error. */
	template <class F> void store(F T::*slot, typename plain<F>::type function)
	{
		throw_if(set_bytes(ETCH_ADDR(held.*slot), held.*slot, function));
	}
	void store(const T &all) { throw_if(set_bytes(ETCH_ADDR(held), held, all)); }

  private:
	template <class F> static int set_bytes(void *address, F &slot, const F &desired) noexcept
	{
		const int error = etch_set_bytes(address, &desired, sizeof(desired));

		if (error == ETCH_ENOTETCHED) { /* no table of a loaded module has the slot, so no site calls through it */
			slot = desired;
			return etch_changed_(0);
		}
		return etch_changed_(error);
	}
	static void throw_if(int error)
	{
		if (!error)
			return;
#ifdef __cpp_exceptions
		throw std::system_error(error_code(error), "etch::ops");
#else
		std::terminate();
#endif
	}

	alignas(8) T held;
	[[maybe_unused]] unsigned long mark[3] = {ETCH_OPS_MARK_0, ETCH_OPS_MARK_1, sizeof(T)};
};

template <class T> ops(T) -> ops<T>;

} // namespace etch

#endif
