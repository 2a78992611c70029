// SPDX-License-Identifier: MIT
// What any JavaScript engine is tried by, with nothing of its own but console.log.
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function* primes(n) { for (let i = 2, seen = new Set(); i < n; i++) if (!seen.has(i)) { yield i; for (let k = 2 * i; k < n; k += i) seen.add(k); } }
const words = Array.from({ length: 20000 }, (_, i) => (i * 2654435761 % 99991).toString(36));
const count = new Map();
for (const w of words) count.set(w[0], (count.get(w[0]) || 0) + 1);
console.log(fib(22), [...primes(2000)].length, 3n ** 200n % 1000007n);
console.log(JSON.stringify([...count].sort()), words.sort().join(' ').replace(/([a-m])(\d)/g, '$2$1').length);
class Shape { constructor(n) { this.n = n; } area() { return this.n; } }
class Square extends Shape { area() { return super.area() ** 2; } }
let sum = 0;
for (let i = 0; i < 1e5; i++) sum += (i % 3 ? new Square(i % 10) : new Shape(i % 7)).area();
console.log(sum, JSON.parse(JSON.stringify({ a: [1, { b: null }] })).a[1].b);
try { null.x; } catch (e) { console.log(e instanceof TypeError); }
function deep(n) { return n ? 1 + deep(n - 1) : 0; }
console.log(deep(2000), new Date(0).toISOString(), [..."\u{1f600}x"].length, new Float64Array([3, 1, 2]).sort().join());
const late = async n => { await null; if (n > 2) throw new Error(`late ${n}`); return n; };
Promise.allSettled([1, 2, 3].map(late)).then(r => console.log(JSON.stringify(r.map(x => x.value ?? x.reason.message))));

// Long enough for a thousand samples: what interpreters and built-in functions each do in their own way.
function* upTo(n) { for (let i = 0; i < n; i++) yield i; }
class A { constructor(x) { this.x = x; } get v() { return this.x; } set v(y) { this.x = y; } m(a, ...r) { return a + r.length + this.x; } static s(o) { return { ...o, k: 1 }; } }
class B extends A { m(a, ...r) { return super.m(a, ...r) + 1; } #p = 3; p() { return this.#p; } }
function work(k) {
  let s = 0;
  s += fib(14);
  for (const x of upTo(500)) s += x;
  const b = new B(k); for (let i = 0; i < 500; i++) { b.v = i; s += b.m(i, 1, 2) + b.v + b.p(); }
  const m = new Map(), st = new Set(), w = new WeakMap();
  for (let i = 0; i < 500; i++) { m.set('k' + i, i); st.add(i % 37); w.set({}, i); }
  for (const [q, v] of m) s += v; m.forEach((v) => { s += v; });
  const arr = Array.from({ length: 300 }, (_, i) => (i * 7919) % 1009);
  s += arr.slice().sort((x, y) => x - y).map(x => x * 2).filter(x => x % 3).reduce((x, y) => x + y, 0);
  s += JSON.parse(JSON.stringify({ arr, o: { a: 'x'.repeat(20), n: null, t: true } })).arr.length;
  s += 'the quick brown fox jumps'.repeat(10).replace(/(\w+) (\w+)/g, (all, p, q) => q + p).split('o').length;
  for (let i = 0; i < 60; i++) { try { if (i % 2) throw new Error('e' + i); null.x; } catch (e) { s += e.message.length; } finally { s++; } }
  switch (k % 5) { case 0: s++; break; case 1: s += 2; break; case 3: s += 4; break; default: s -= 1; }
  s += Number(7n ** 40n % 1009n); s += [1.5, 2.5].map(Math.sqrt).length; s |= 0; s ^= k; s >>>= 0;
  const { a = 5, ...rest } = A.s({ c: 2, d: 3 }); s += a + Object.keys(rest).length;
  const f = new Float64Array(100); for (let i = 0; i < 100; i++) f[i] = i * 1.25; s += f.reduce((x, y) => x + y);
  s += [...'a\u{1f600}b'].length + `t${k}`.length; s += (function () { return arguments.length; })(1, 2, 3);
  const p = new Proxy({}, { get: (t, n) => n.length, has: () => true }); for (let i = 0; i < 50; i++) s += p.abc + ('z' in p);
  s += Reflect.ownKeys({ a: 1, [Symbol.iterator]: 2 }).length; for (const q in { u: 1, v: 2 }) s += q.length;
  const bound = fib.bind(null, 8); s += bound() + fib.call(null, 5) + fib.apply(null, [6]);
  (0, eval)('var z = 1'); s += new Function('x', 'return x + 1')(3); label: for (let i = 0; i < 9; i++) for (;;) { if (i > 3) break label; continue label; }
  s += new Date(864e5 * k).getUTCDate() + parseInt('12') + parseFloat('1.5') + isNaN(k);
  return s;
}
let all = 0;
for (let i = 0; i < 2400; i++) all += work(i % 50);
console.log(all);
async function added(n) { let s = 0; for (let i = 0; i < n; i++) s += await i; return s; }
added(20000).then(x => console.log(x));
