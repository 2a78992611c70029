// SPDX-License-Identifier: MIT
int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int deep(int n) { if (!n) error("deep"); return deep(n - 1) + 1; }
int main()
{
	array v = map(enumerate(30), lambda(int i) { return i * 7919 % 997; });
	write("%d %{%d %}\n", fib(18), sort(v));
	mixed e = catch { deep(100); };
	write("%s %O\n", e[0] - "\n", mkmapping(({ "a", "b" }), ({ 1, ([ "x": pow(3, 200) ]) })));
	write("%s\n", Regexp.SimpleRegexp("[0-9]+")->replace("ab-12 cd-34", "n"));
	return 0;
}
