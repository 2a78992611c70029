// SPDX-License-Identifier: MIT
errordomain Odd { DEEP }
int fib (int n) { return n < 2 ? n : fib (n - 1) + fib (n - 2); }
int deep (int n) throws Odd { if (n == 0) throw new Odd.DEEP ("deep"); return deep (n - 1) + 1; }
void main () {
	try { deep (50); } catch (Odd e) { stdout.printf ("%s\n", e.message); }
	var list = new GLib.List<int> ();
	for (int i = 0; i < 30; i++) list.insert_sorted (i * 7919 % 997, (a, b) => a - b);
	foreach (int v in list) stdout.printf ("%d ", v);
	var threads = new GLib.Thread<int> ("t", () => fib (15));
	stdout.printf ("\n%d %d %s\n", fib (20), threads.join (), /(\w+)-(\d+)/.replace ("ab-12 cd-34", -1, 0, "\\2-\\1"));
}
