/* SPDX-License-Identifier: MIT */
/*
 * etch/imv.hpp: immediate values for C++17 and later, as a class template.
 *
 *     #include <etch/imv.hpp>
 *
 *     etch::value<int> verbose{0};             // anywhere that a static variable may be
 *
 *     if (verbose) ...                         // the value is in the instruction
 *     if (etch::unlikely(verbose)) ...         // no load and no test: a nop or a jump
 *     verbose = 1;                             // every site, while all threads run
 *     std::error_code ec = verbose.set(1);     // the same, without an exception
 *
 * A value is constant-initialized wherever the conversion of its initializer to T is constant: no constructor runs.
 * What etch/imv.h guarantees about sets, threads, signals and cancellation holds. A program that the tool has not
 * processed behaves the same and reads memory.
 *
 * WHERE. Namespaces, static members, inline variables, variable templates, static locals, and members of objects with
 * static storage. The tool finds each by the 16 bytes that follow its value, so a variable takes 24 bytes. Anywhere
 * else (on the heap, on a stack, initialized at run time, const) it works as std::atomic with relaxed loads does.
 * Reads through a reference or pointer that the compiler does not see through are loads; so are those of other files,
 * where only object files are processed, and of other shared objects.
 *
 * MEMORY. Only the functions of this header write to a value: it cannot be copied, and a std::memset over one changes
 * what loads yield but not what sites yield. Its page stays writable, unlike that of a DEFINE_IMV.
 *
 * ERRORS. `=` and store() throw std::system_error; set() returns a std::error_code. The codes are those of enum
 * etch_error, in etch::error_category(). Without exceptions (-fno-exceptions) `=` and store() call std::terminate.
 * Nothing has changed when an error is reported. If no processed module holds the value, the functions store to it;
 * this is no error.
 *
 * gcc 12 and later, clang 14 and later.
 */
#ifndef ETCH_IMV_HPP
#define ETCH_IMV_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "etch/imv.hpp needs C++17; etch/imv.h works with C and older C++"
#endif

#include <etch/branch.h>
#include <etch/imv.h>

#include <exception>
#include <string>
#include <system_error>
#include <type_traits>

namespace etch
{

/* The category of enum etch_error. Thread-safe. */
class error_category_type final : public std::error_category
{
  public:
	const char *name() const noexcept override { return "etch"; }
	std::string message(int error) const override { return etch_strerror(error); }
};
inline const std::error_category &error_category() noexcept
{
	static const error_category_type category;
	return category;
}
/* The code of an etch_error; 0 is no error. */
inline std::error_code error_code(int error) noexcept { return {error, error_category()}; }

/*
 * A value of 1, 2, 4 or 8 bytes in the instruction stream: an arithmetic type, an enumeration, a pointer, or a small
 * trivially copyable class.
 */
template <class T> class value
{
	static_assert(std::is_trivially_copyable<T>::value && !std::is_const<T>::value && !std::is_volatile<T>::value,
	              "an etched value is copied bytewise");
	static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
	              "an etched value has 1, 2, 4 or 8 bytes");

  public:
	using value_type = T;

	constexpr value() noexcept : held{} {}
	constexpr value(T initial) noexcept : held(initial) {}
	value(const value &) = delete;
	value &operator=(const value &) = delete;

	/* The value, by the one instruction of imv_read. Async-signal-safe. */
	[[gnu::always_inline]] operator T() const noexcept { return load(); }
	[[gnu::always_inline]] T load() const noexcept
	{
		word_type word;
		T result;

		if constexpr (sizeof(T) == 8)
			__asm__ __volatile__(ETCH_PAD_R12_ ".p2align 3,,6\n\t%{disp32%} {movq %1, %0|mov %0, %q1}"
			                     : "=r"(word)
			                     : "m"(*this));
		else
			__asm__ __volatile__(ETCH_PAD_R12_ ETCH_PAD_BASE_ ".p2align 3,,5\n\t"
			                                                  "%{disp32%} {movl %1, %k0|mov %k0, %k1}"
			                     : "=R"(word)
			                     : "m"(*this));
		__builtin_memcpy(&result, &word, sizeof(result));
		return result;
	}
	/* The value, read from memory: for code that must not hold a site. Async-signal-safe. */
	[[gnu::always_inline]] T load_memory() const noexcept
	{
		T result;

		__atomic_load(const_cast<const T *>(&held), &result, __ATOMIC_RELAXED);
		return result;
	}

	/* Sets the value in memory and at every site, as imv_set does. Thread-safe; not for signal handlers. */
	std::error_code set(T desired) noexcept { return error_code(set_bytes(desired)); }
	/* Does what set() does, but throws std::system_error instead of returning an error. `=` returns the value that was
	 * set, as std::atomic's does. */
	void store(T desired)
	{
		const int error = set_bytes(desired);

		if (error)
			fail(error);
	}
	T operator=(T desired)
	{
		store(desired);
		return desired;
	}

  private:
	template <class U> friend bool branch(const value<U> &) noexcept;
	template <class U> friend bool likely(const value<U> &) noexcept;
	template <class U> friend bool unlikely(const value<U> &) noexcept;
	using word_type = std::conditional_t<sizeof(T) == 8, unsigned long, unsigned>;

	int set_bytes(T desired) noexcept
	{
		const int error = etch_set_bytes(ETCH_ADDR(held), &desired, sizeof(desired));

		if (error != ETCH_ENOTETCHED)
			return etch_changed_(error);
		/* No table of a loaded module has the value, so no site reads it. */
		__atomic_store(&held, &desired, __ATOMIC_SEQ_CST);
		return 0;
	}
	[[noreturn, gnu::cold]] static void fail(int error)
	{
#ifdef __cpp_exceptions
		throw std::system_error(error_code(error), "etch::value");
#else
		(void)error;
		std::terminate();
#endif
	}

	alignas(8) T held;
	/* The bytes between the value and the mark are zeros: reads of narrow values take 4 bytes. */
	[[maybe_unused]] alignas(8) unsigned long mark[2] = {ETCH_VALUE_MARK_0, ETCH_VALUE_MARK_1};
};

template <class T> value(T) -> value<T>;

/*
 * The static branches of etch/branch.h: the value as a condition, without a load and a test. unlikely() and branch()
 * fall through while the value is 0, likely() while it is not. The code of the other way is out of line, except with
 * branch(). In code that is not position-independent, and without optimization, the condition tests the value that
 * load() gives.
 */
#if defined(__OPTIMIZE__) && defined(__pic__)
#define ETCH_VALUE_BRANCH_(kind, otherwise)                                                                     \
	__asm__ goto(ETCH_BRANCH_JUMP_("%l[load]") ETCH_BRANCH_RECORD_(kind, "%l[load]", "%l[jump]", "0")::"m"(of), \
	             "i"(sizeof(T))::load, jump);                                                                   \
	return otherwise;                                                                                           \
load:                                                                                                           \
	ETCH_COLD_                                                                                                  \
	return of.load() != T();                                                                                    \
jump:                                                                                                           \
	return !otherwise
#else
#define ETCH_VALUE_BRANCH_(kind, otherwise) return of.load() != T()
#endif
template <class T> [[gnu::always_inline]] inline bool branch(const value<T> &of) noexcept
{
	ETCH_VALUE_BRANCH_("1", false);
}
template <class T> [[gnu::always_inline]] inline bool unlikely(const value<T> &of) noexcept
{
	ETCH_VALUE_BRANCH_("1", false);
}
template <class T> [[gnu::always_inline]] inline bool likely(const value<T> &of) noexcept
{
	ETCH_VALUE_BRANCH_("2", true);
}
#undef ETCH_VALUE_BRANCH_

} // namespace etch

#endif
