// SPDX-License-Identifier: MIT
// What node is tried by: interpreter and compilers of V8, its libraries, workers.
const assert = require('assert');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const zlib = require('zlib');
const { Worker, isMainThread, parentPort } = require('worker_threads');
const { spawnSync } = require('child_process');

function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
const digest = data => crypto.createHash('sha256').update(data).digest('hex').slice(0, 16);

if (!isMainThread) {
	parentPort.on('message', n => { parentPort.postMessage([n, fib(n)]); parentPort.close(); });
	return;
}

function numbers() {
	const a = new Float64Array(20000).map((_, i) => Math.sin(i) * 1e6);
	console.log(digest(Buffer.from(a.sort().buffer)), fib(25), 2n ** 200n % 1000007n);
	let x = 1;
	for (let i = 0; i < 3e6; i++) x = (x * 1103515245 + 12345) & 0x7fffffff;
	console.log(x);
}

function text(path) {
	const count = new Map();
	for (const [word] of fs.readFileSync(path, 'utf8').matchAll(/\b[a-z]+\b/g)) count.set(word, (count.get(word) || 0) + 1);
	console.log([...count].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 5));
	const tree = JSON.parse(JSON.stringify([...count]));
	console.log(tree.length, digest(JSON.stringify(tree)), 'ÅÄÖ'.normalize('NFD').length, 'a-b'.replace(/(\w)-(\w)/, '$2$1'));
}

function packed(path) {
	const data = fs.readFileSync(path);
	for (const [pack, unpack] of [['gzipSync', 'gunzipSync'], ['brotliCompressSync', 'brotliDecompressSync']]) {
		const small = zlib[pack](data, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } });
		assert(zlib[unpack](small).equals(data));
		console.log(pack, small.length);
	}
	const key = crypto.scryptSync('secret', 'salt', 32);
	const cipher = crypto.createCipheriv('aes-256-gcm', key, Buffer.alloc(12));
	console.log(digest(Buffer.concat([cipher.update(data), cipher.final(), cipher.getAuthTag()])));
}

function errors() {
	for (const f of [() => null.x, () => undefinedName, () => new Array(-1), () => { throw new TypeError('own'); },
			() => JSON.parse('{'), () => (function g() { g(); })()]) {
		try { f(); } catch (e) { console.log(e.name, e.message); }
	}
	class A { #v = 1; get v() { return this.#v; } static *gen() { yield* [1, 2, 3]; } }
	console.log(new A().v, [...A.gen()], ((a, { b = 2 } = {}, ...c) => [a, b, c])(1, undefined, 3, 4));
}

async function assembly() {
	// (func (param i32 i32) (result i32) local.get 0 local.get 1 i32.mul i32.const 7 i32.add), and unreachable
	const bytes = Uint8Array.from([0, 97, 115, 109, 1, 0, 0, 0, 1, 10, 2, 96, 2, 127, 127, 1, 127, 96, 0, 0, 3, 3, 2, 0, 1,
		7, 9, 2, 1, 109, 0, 0, 1, 116, 0, 1, 10, 16, 2, 10, 0, 32, 0, 32, 1, 108, 65, 7, 106, 11, 3, 0, 0, 11]);
	const { instance } = await WebAssembly.instantiate(bytes);
	console.log(instance.exports.m(6, 7));
	try { instance.exports.t(); } catch (e) { console.log(e.name, e.message); }
}

async function main() {
	console.log(process.version, process.arch);
	numbers();
	text(process.argv[2]);
	packed(process.argv[2]);
	errors();
	await assembly();
	const found = await Promise.all([18, 20, 22].map(n => new Promise(done => {
		const w = new Worker(__filename);
		w.on('message', done);
		w.postMessage(n);
	})));
	console.log(found);
	console.log(spawnSync('sort', ['-n'], { input: '3\n1\n2\n' }).stdout.toString());
	const server = http.createServer((q, r) => r.end(`you asked for ${q.url}`)).listen(8080, '127.0.0.1', () => {
		http.get('http://127.0.0.1:8080/page', r => r.on('data', d => console.log(r.statusCode, d.toString())).on('end', () => server.close()));
	});
	let garbage = [];
	for (let i = 0; i < 200000; i++) { garbage.push({ i, s: 'x' + i }); if (garbage.length > 5000) garbage = []; }
	console.log(garbage.length);
}

main();
