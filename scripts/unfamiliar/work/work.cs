// SPDX-License-Identifier: MIT
using System;
using System.Collections.Generic;
using System.Linq;
using System.Text.RegularExpressions;
class Odd : Exception { public Odd(string s) : base(s) { } }
class Work {
	static int Fib(int n) { return n < 2 ? n : Fib(n - 1) + Fib(n - 2); }
	static int Deep(int n) { if (n == 0) throw new Odd("deep"); return Deep(n - 1) + 1; }
	static int Kind(char c) { switch (c) { case 'a': return 1; case 'b': return 4; case 'c': return 9; case 'd': return 16; default: return 0; } }
	static void Main() {
		try { Deep(50); } catch (Odd e) { Console.WriteLine(e.Message); } finally { Console.WriteLine(Fib(20)); }
		var words = "to be or not to be that is the question".Split(' ').GroupBy(w => w).OrderByDescending(g => g.Count()).ThenBy(g => g.Key, StringComparer.Ordinal);
		foreach (var g in words.Take(3)) Console.WriteLine("{0} {1}", g.Key, g.Count());
		Console.WriteLine("{0} {1}", "abracadabra".Sum(c => Kind(c)), Regex.Replace("ab-12 cd-34", @"(\w+)-(\d+)", "$2-$1"));
	}
}
