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
