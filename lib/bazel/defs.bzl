# SPDX-License-Identifier: MIT
"""etch for Bazel: a repository of the installed etch, and rewritten programs and libraries."""

_BUILD = """
package(default_visibility = ["//visibility:public"])
exports_files(["bin/etch"])
cc_library(
    name = "libetch",
    srcs = ["lib/libetch.a"],
    hdrs = glob(["include/etch/*"]),
    includes = ["include"],
    linkopts = ["-pthread"],
)
"""

def _etch_repository_impl(ctx):
    etch = ctx.path(ctx.attr.prefix + "/bin/etch") if ctx.attr.prefix else ctx.which("etch")
    if not etch or not etch.exists:
        fail("no etch in %s: install it, or name its prefix" % (ctx.attr.prefix or "PATH"))
    prefix = str(etch.dirname.dirname)
    libraries = [ctx.path(prefix + "/lib/" + d + "libetch.a") for d in ["", "x86_64-linux-gnu/"]]
    libraries = [path for path in libraries if path.exists]
    if not libraries:
        fail("no libetch.a beside %s" % etch)
    ctx.symlink(etch, "bin/etch")
    ctx.symlink(libraries[0], "lib/libetch.a")
    ctx.symlink(prefix + "/include/etch", "include/etch")
    ctx.file("BUILD.bazel", _BUILD)

etch_repository = repository_rule(
    implementation = _etch_repository_impl,
    doc = "The tool, @NAME//:bin/etch, and the library, @NAME//:libetch, of an installed etch.",
    attrs = {"prefix": attr.string(doc = "where etch is installed; default: where PATH has it")},
    environ = ["PATH"],
    local = True,
)

def _etch_binary_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.run(
        executable = ctx.executable.etch,
        arguments = ["rewrite"] + ctx.attr.options + ["-o", out.path, "--", ctx.file.binary.path],
        inputs = [ctx.file.binary],
        outputs = [out],
        env = {},  # the action depends on its inputs alone
        mnemonic = "EtchRewrite",
        progress_message = "Rewriting %s" % out.short_path,
    )
    runfiles = ctx.attr.binary[DefaultInfo].default_runfiles
    return [DefaultInfo(executable = out, files = depset([out]), runfiles = runfiles)]

etch_binary = rule(
    implementation = _etch_binary_impl,
    executable = True,
    doc = "A program or shared library after the link step of etch.",
    attrs = {
        "binary": attr.label(allow_single_file = True, mandatory = True, doc = "the cc_binary to rewrite"),
        "etch": attr.label(default = "@etch//:bin/etch", allow_single_file = True, executable = True, cfg = "exec"),
        "options": attr.string_list(doc = "further options of `etch rewrite`"),
    },
)
