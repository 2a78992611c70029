// SPDX-License-Identifier: MIT
/* frames.m: exceptions of Objective-C through frames of its own and of C++, and C++'s through frames of Objective-C.
 * Each line says what happened. */
#include <objc/objc-exception.h>
#include <objc/runtime.h>
#include <pthread.h>
#include <stdio.h>

void cxx_throw(int n);
void cxx_call(void (*fn)(int), int n, int depth);
int cxx_catch(void (*fn)(int), int n);
void cxx_rethrow(void (*fn)(int), int n);
int cxx_destructors(void);

__attribute__((objc_root_class))
@interface First {
	Class isa;
}
+ (id)make;
- (const char *)name;
@end
@implementation First
+ (id)make { return class_createInstance(self, 0); }
- (const char *)name { return class_getName(object_getClass(self)); }
@end

@interface Second : First
@end
@implementation Second
@end

__attribute__((objc_root_class))
@interface Third {
	Class isa;
}
+ (id)make;
@end
@implementation Third
+ (id)make { return class_createInstance(self, 0); }
@end

static char seen[400];
static int last;

static void note(int c) { seen[last++] = (char)c; }

static void say(const char *name, const char *what)
{
	printf("%s: %s %.*s\n", name, what, last, seen);
	fflush(stdout);
	last = 0;
}

static void gone(int *n) { note('A' + *n % 26); }

__attribute__((noinline)) static int down(int n)
{
	int c __attribute__((cleanup(gone))) = n;

	@try {
		if (!n)
			@throw [Second make];
		return down(n - 1) + 1;
	} @catch (Third *t) {
		return -1;
	} @finally {
		note('a' + n % 26);
	}
}

__attribute__((noinline)) static int again(int n)
{
	@try {
		if (!n)
			@throw [First make];
		return again(n - 1) + 1;
	} @catch (Second *s) {
		note('?');
		@throw;
	} @catch (First *f) {
		note('!');
		if (n == 10)
			@throw [Second make];
		@throw f;
	}
}

__attribute__((noinline)) static int inside(int n)
{
	@try {
		@throw [Third make];
	} @catch (Third *t) {
		@try {
			down(n);
		} @catch (First *f) {
			note('+');
		}
		@throw;
	}
	return n;
}

static void raises(int n) { down(n); }
static void rethrows(int n) { again(n); }
static void nests(int n) { inside(n); }

static void throws(int n)
{
	int c __attribute__((cleanup(gone))) = n;

	@try {
		cxx_throw(n);
	} @catch (First *f) {
		note('x');
	} @finally {
		note('.');
	}
}

static void through(int n) { cxx_call(raises, n, 5); }

static const char *caught(void (*fn)(int), int n)
{
	@try {
		fn(n);
	} @catch (Third *t) {
		return "Third";
	} @catch (First *f) {
		return [f name];
	}
	return "nothing";
}

static void *thread(void *arg)
{
	(void)arg;
	return (void *)caught(raises, 4);
}

int main(void)
{
	void *from;
	pthread_t t;

	for (int i = 0; i < 3; i++) {
		say("down", caught(raises, 20));
		say("again", caught(rethrows, 20));
		say("inside", caught(nests, 5));
		say("through C++", caught(through, 6));
		say("of C++ through Objective-C", cxx_catch(throws, 6) == 1 ? "found" : "LOST");
		say("to C++", cxx_catch(raises, 6) == 2 ? "found" : "LOST");
	}
	pthread_create(&t, NULL, thread, NULL);
	pthread_join(t, &from);
	say("thread", (const char *)from);
	printf("%d\n", cxx_destructors());
	return 0;
}
