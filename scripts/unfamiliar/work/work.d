// SPDX-License-Identifier: MIT
import std.stdio, std.algorithm, std.conv, std.regex, core.thread, std.concurrency;
class Odd : Exception { this(string s) { super(s); } }
int deep(int n) { if (n == 0) throw new Odd("deep"); return deep(n - 1) + 1; }
void main() {
    int sum;
    foreach (i; 0 .. 4) { auto f = new Fiber({ try deep(i * 5); catch (Odd) sum += i; Fiber.yield(); sum *= 2; }); f.call(); f.call(); }
    auto t = spawn((Tid p) { foreach (i; 0 .. 10) send(p, i * i); }, thisTid);
    foreach (i; 0 .. 10) sum += receiveOnly!int();
    writeln(sum, " ", [3, 1, 2].sort.map!(x => x * x), " ", "ab-12 cd-34".replaceAll(regex(r"(\w+)-(\d+)"), "$2-$1"));
}
