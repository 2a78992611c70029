// SPDX-License-Identifier: MIT
/// Exceptions of D through frames of D and C++, and C++'s through frames of D. Each line says what happened.
module frames;

import core.stdc.stdio : printf;
import core.thread : Thread;

class First : Exception
{
    this(string m) { super(m); }
}

class Second : First
{
    this(string m) { super(m); }
}

class Third : Exception
{
    this(string m) { super(m); }
}

__gshared char[400] seen;
__gshared size_t last;

void note(char c) { seen[last++] = c; }

void say(string name, string what)
{
    printf("%.*s: %.*s %.*s\n", cast(int) name.length, name.ptr, cast(int) what.length, what.ptr, cast(int) last, seen.ptr);
    last = 0;
}

struct Noted
{
    int n;
    ~this() { note(cast(char)('a' + n % 26)); }
}

extern (C) void cxx_throw(int n);
extern (C) void cxx_call(void function(int) fn, int n, int depth);
extern (C) int cxx_catch(void function(int) fn, int n);
extern (C) int cxx_destructors();

pragma(inline, false) int down(int n)
{
    auto d = Noted(n);
    try
    {
        if (!n)
            throw new Second("at the bottom");
        return down(n - 1) + d.n;
    }
    catch (Third t)
    {
        return -1;
    }
}

pragma(inline, false) int again(int n)
{
    scope (exit) note('e');
    scope (failure) note('f');
    scope (success) note('s');
    try
    {
        if (!n)
            throw new First("first");
        return again(n - 1) + 1;
    }
    catch (Second s)
    {
        note('?');
        throw s;
    }
    catch (First e)
    {
        note('!');
        if (n == 10)
            throw new Second("replaced");
        throw e;
    }
    finally
        note('.');
}

/// One that is thrown while another is on its way is chained to it.
pragma(inline, false) int chained(int n)
{
    try
    {
        if (!n)
            throw new First("chain");
        return chained(n - 1) + 1;
    }
    finally
    {
        if (n % 3 == 0)
            throw new Third("link");
    }
}

pragma(inline, false) int inside(int n)
{
    try
        throw new Third("outer");
    catch (Third t)
    {
        try
            down(n);
        catch (First f)
            note('+');
        throw t;
    }
}

extern (C) void raises(int n) { down(n); }

extern (C) void throws(int n)
{
    auto d = Noted(25);
    scope (exit) note('x');
    cxx_throw(n);
}

string caught(void delegate() f)
{
    try
        f();
    catch (Third t)
        return "Third " ~ t.msg;
    catch (Second s)
        return "Second " ~ s.msg;
    catch (Exception e)
    {
        string all = "Exception";
        for (Throwable t = e; t; t = t.next)
            all ~= " " ~ t.msg;
        return all;
    }
    return "nothing";
}

string number(int n) { return n == 1 ? "one" : n == 2 ? "two" : n == 0 ? "none" : "other"; }

void main()
{
    foreach (i; 0 .. 3)
    {
        say("down", caught({ down(20); }));
        say("again", caught({ again(20); }));
        say("chained", caught({ chained(9); }));
        say("inside", caught({ inside(5); }));
        say("through C++", caught({ cxx_call(&raises, 6, 9); }));
        say("of C++ through D", number(cxx_catch(&throws, 6)));
    }
    string from;
    auto t = new Thread({ from = caught({ down(4); }); });
    t.start();
    t.join();
    say("thread", from);
    auto u = new Thread({ chained(7); });
    u.start();
    say("join", caught({ u.join(); }));
    int[] a = [1, 2, 3];
    try
        note(cast(char) a[3 + cast(int) from.length]);
    catch (Error e)
        say("range", "Error");
    /* Last: D's runtimes take an exception that C++ has caught for one that is still on its way. */
    say("to C++", number(cxx_catch(&raises, 6)));
    printf("%d\n", cxx_destructors());
}
