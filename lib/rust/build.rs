// SPDX-License-Identifier: MIT
//! Finds libetch and makes rustc link it: libetch.a, or with ETCH_DYNAMIC=1 libetch.so. Looks in ETCH_LIB_DIR, where
//! pkg-config says that etch is installed, and in the build folder of the checkout that this crate is in.
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn by_pkg_config() -> Option<PathBuf> {
    let pkg_config = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let out = Command::new(pkg_config).args(["--variable=libdir", "etch"]).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    (out.status.success() && !text.trim().is_empty()).then(|| text.trim().into())
}

fn main() {
    for name in ["ETCH_LIB_DIR", "ETCH_DYNAMIC", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_CFG_MIRI").is_some() || env::var_os("DOCS_RS").is_some() {
        return; // nothing is linked
    }
    let target = env::var("TARGET").unwrap_or_default();
    assert!(target.starts_with("x86_64-") && target.contains("-linux-"), "etch: is for x86-64 Linux, not {target}");

    let dynamic = env::var_os("ETCH_DYNAMIC").is_some_and(|v| v != "0");
    let name = if dynamic { "libetch.so" } else { "libetch.a" };
    let checkout = Path::new(&env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../build");
    let places = [env::var_os("ETCH_LIB_DIR").map(PathBuf::from), by_pkg_config(), Some(checkout)];
    let Some(dir) = places.into_iter().flatten().find(|d| d.join(name).is_file()) else {
        panic!("etch: no {name}: set ETCH_LIB_DIR to the directory that has it, or PKG_CONFIG_PATH to that of etch.pc");
    };
    println!("cargo:rerun-if-changed={}", dir.join(name).display());
    println!("cargo:rustc-link-search=native={}", dir.display());
    println!("cargo:rustc-link-lib={}=etch", if dynamic { "dylib" } else { "static" });
}
