# SPDX-License-Identifier: MIT
"""wasm.py compile FILE | load FILE | run: a module of WebAssembly, compiled into a file; from it; and in memory, with a trap."""
import sys

import wasmtime

TEXT = """(module
  (func $f (export "f") (param i32) (result i32)
    (if (result i32) (i32.lt_s (local.get 0) (i32.const 2))
      (then (local.get 0))
      (else (i32.add (call $f (i32.sub (local.get 0) (i32.const 1))) (call $f (i32.sub (local.get 0) (i32.const 2)))))))
  (func (export "t") unreachable))"""

engine = wasmtime.Engine()
if sys.argv[1] == "compile":
    with open(sys.argv[2], "wb") as f:
        f.write(wasmtime.Module(engine, TEXT).serialize())
    sys.exit()
store = wasmtime.Store(engine)
module = wasmtime.Module.deserialize_file(engine, sys.argv[2]) if sys.argv[1] == "load" else wasmtime.Module(engine, TEXT)
exports = wasmtime.Instance(store, module, []).exports(store)
print(exports["f"](store, 20))
try:
    exports["t"](store)
except wasmtime.Trap as trap:
    print(trap.message.splitlines()[-1])
