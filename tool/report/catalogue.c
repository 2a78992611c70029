/* SPDX-License-Identifier: MIT */
/* The text of every finding, and lookups by ID, name and group. */
#include "report/catalogue.h"

#include <string.h>

const struct catalogue_entry catalogue[] = {
	{"ETCH-N001", "symbol-without-size", SEVERITY_NOTE, "Function symbol without a size",
     "It is not known where the function ends; etch assumes that it ends where the next symbol begins. Profilers "
     "and debuggers guess the same way.",
     "In assembly, write .size name, .-name after the function."},
	{"ETCH-N002", "runtime-conventions", SEVERITY_WARNING, "Code of a language runtime with its own conventions",
     "The compilers of OCaml, Dart, V8 and Go do not follow the psABI for registers and frames, and some write "
     "wrong .eh_frame. The findings that follow from this are counted here.",
     "No change of the source helps; --each lists the single findings, for compiler authors. etch's rows follow the "
     "code."},
	{"ETCH-N003", "cfi-by-compiler", SEVERITY_ERROR, "A compiler's .eh_frame that does not follow the code",
     "The compiler describes the frame at calls, as exceptions need it, but not at every instruction. In epilogues "
     "and after them, backtraces of signal handlers and profilers go wrong.",
     "The rows that etch rewrite makes follow the code. Those of a later release of the compiler may do so, too."},
	{"ETCH-D001", "decoders-disagree-at-site", SEVERITY_WARNING,
     "The decoders disagree about an instruction that reads an etched object",
     "No byte is rewritten unless Zydis and Capstone agree on its length and operands, so the load stays a load.",
     "Use an ordinary load; or report the bytes as a decoder bug."},
	{"ETCH-D002", "etched-reference-in-data", SEVERITY_WARNING,
     "A relocation against an etched object lies in bytes that do not decode",
     "etch cannot tell a read from a store there: the object counts as escaped and starts unarmed.",
     "Put data into a data section, or after the code under a function symbol of its own."},
	{"ETCH-D003", "site-is-not-there", SEVERITY_WARNING, "A table entry points at bytes that are not its load",
     "The object step recorded an instruction that the linked file does not have. The entry is dropped.",
     "Rebuild the object; no other tool may change code between the two steps."},
	{"ETCH-D004", "decoders-disagree", SEVERITY_NOTE, "The decoders disagree about an instruction",
     "Zydis and Capstone see different lengths or operands. One of the two is wrong, or the encoding is not settled "
     "between vendors; etch changes no byte near it.",
     "Nothing needs to be done; please report the bytes."},
	{"ETCH-D005", "flow-into-no-instruction", SEVERITY_WARNING, "Control reaches bytes that are not an instruction",
     "The path ends in an invalid opcode, or etch followed a path that the program never takes, as after a call "
     "that does not return but is not declared noreturn.",
     "Declare the function noreturn; give data in code a symbol of its own; otherwise it is a bug in the assembly."},
	{"ETCH-D006", "branch-into-instruction", SEVERITY_NOTE, "A branch goes into the middle of another instruction",
     "The bytes are executed as two different instructions. Hand-written code does this to skip a lock prefix; "
     "unwinders and code patchers see only one of the two.",
     "Give the branch target an instruction of its own."},
	{"ETCH-D007", "instruction-not-decoded", SEVERITY_NOTE, "Control reaches an instruction that etch does not decode",
     "Its encoding is in a part of the opcode map to which processors add instructions, but this etch does not know "
     "it. Nothing after it in the function is proven: rows there are those of .eh_frame, or undefined.",
     "A newer etch may know it; please report the bytes. If no processor has such an instruction, it is data that "
     "control reaches: see ETCH-D005."},
	{"ETCH-D008", "second-opinion-missing", SEVERITY_NOTE, "Instructions that the second decoder does not know",
     "Capstone does not decode these instructions, so there is no second opinion about them. etch rewrites none of "
     "them.",
     "Nothing needs to be done; a newer Capstone may know more of them."},
	{"ETCH-F001", "falls-through", SEVERITY_WARNING, "Control falls through into the next function",
     "The last instruction of the function, or a jump past its end, continues into whatever the linker placed next. "
     "With sections reordered that is another function.",
     "End the function with a return, a jump or a call of a function declared noreturn; give assembly with several "
     "entry points one symbol whose size covers them all."},
	{"ETCH-F002", "unreachable", SEVERITY_NOTE, "Unreachable instructions",
     "No direct path, table, landing pad or symbol leads there. It is dead code, mostly after a call that does not "
     "return, or etch does not see the path to it.",
     "Declare functions that do not return noreturn, so that compilers drop the code after their calls; remove the "
     "code; or give its entry a symbol."},
	{"ETCH-F003", "target-missing", SEVERITY_ERROR, "A call or jump leaves the code of the file",
     "When it is executed, the program continues in data or in unmapped memory.",
     "Check the relocation or the offset that gives the target."},
	{"ETCH-F004", "tail-call-with-frame", SEVERITY_WARNING, "A jump to another function with a modified stack frame",
     "The target returns to the word on top of the stack, which is not the return address; or callee-saved "
     "registers are not restored.",
     "Restore the frame before the jump."},
	{"ETCH-F005", "intra-function-call", SEVERITY_NOTE, "A function calls into the middle of itself",
     "The code there is both a part of the function and a function: profilers and backtraces show the outer one, "
     "and .eh_frame has one frame for both.",
     "Give the call target a symbol of its own."},
	{"ETCH-F006", "end-of-section", SEVERITY_WARNING, "Control runs off the end of the section",
     "The program goes on with whatever the linker places after the section.",
     "End it with a return, a jump, ud2, or a call of a function declared noreturn."},
	{"ETCH-F007", "jump-into-function", SEVERITY_NOTE, "A jump into the middle of another function",
     "The code there belongs to both functions: profilers and backtraces show the other one, and its frame has to "
     "be the same on both paths.",
     "Give the target a symbol of its own, or the two functions one symbol."},
	{"ETCH-S001", "stack-state-mismatch", SEVERITY_WARNING, "Two paths meet with different stack frames",
     "The code that follows cannot be right for both: on one of them the return or an unwinder takes the wrong word "
     "for the return address.",
     "Compare the two paths shown: one has an extra push, pop or adjustment of rsp."},
	{"ETCH-S002", "return-with-frame", SEVERITY_ERROR, "A return with a modified stack frame",
     "The word on top of the stack is not the return address, so the return jumps to wherever that word points.",
     "Balance every push, pop and adjustment of rsp on the way to the return."},
	{"ETCH-S003", "undefined-stack-state", SEVERITY_NOTE, "An instruction with an unknown stack frame",
     "Neither the code nor .eh_frame tells where the return address is: backtraces and exceptions through here stop.",
     "Set up a frame pointer around what changes rsp, or write .cfi directives."},
	{"ETCH-S004", "stack-pointer-lost", SEVERITY_NOTE, "The stack pointer is changed in a way that cannot be tracked",
     "From here on the distance of rsp from the CFA is unknown; only a frame pointer or .eh_frame can give it.",
     "Keep a frame pointer in functions that do so, or write .cfi directives."},
	{"ETCH-S005", "register-lost", SEVERITY_ERROR, "A callee-saved register is not restored at a return",
     "The caller continues with a wrong value in a register that calls must preserve (System V psABI 3.2.1).",
     "Save the register on entry and restore it on every exit."},
	{"ETCH-S006", "direction-flag", SEVERITY_ERROR,
     "The direction flag is set at a call, jump to a function, or return",
     "The ABI requires the flag to be clear there (System V psABI 3.2.1). If it is set, the next string "
     "instruction, as in memcpy, runs backwards.",
     "Execute cld before the call or return."},
	{"ETCH-S007", "entry-with-words", SEVERITY_WARNING, "A function takes more off the stack than a call puts there",
     "It does so by the same number of bytes before each of its returns. That is right only if code jumps to the "
     "function after it has pushed that many bytes. If the function is called, it returns to a word above the return "
     "address.",
     "Balance every push, pop and adjustment of rsp; if the function is meant to take these words, write .cfi "
     "directives."},
	{"ETCH-C001", "cfi-contradicts-code", SEVERITY_ERROR, ".eh_frame contradicts the code",
     "At this instruction .eh_frame describes another frame than the one that the code has set up. Exceptions, "
     "profilers and debuggers that rely on it go wrong here.",
     "In assembly, correct the .cfi directives. If a compiler wrote them, report that to its authors. etch's row "
     "follows the code."},
	{"ETCH-C002", "cfi-without-row", SEVERITY_NOTE, ".eh_frame has a rule that no row can express",
     "The rule is a DWARF expression or the like, which the row formats cannot express. The row is made from the "
     "code, or it is undefined.",
     "Nothing needs to be done, unless backtraces through this function matter. In that case use a frame pointer."},
	{"ETCH-C003", "cfi-missing", SEVERITY_NOTE, "A function without an FDE in a file that has .eh_frame",
     "Unwinders that know only .eh_frame stop here; an exception thrown through it ends the program.",
     "In assembly, write .cfi_startproc and .cfi_endproc. Otherwise compile with -fasynchronous-unwind-tables."},
	{"ETCH-C004", "cfi-malformed", SEVERITY_ERROR, "An entry of .eh_frame is malformed",
     "Unwinders skip it, stop at it, or crash on it.", "Find the tool that wrote the section; link again."},
	{"ETCH-C005", "cfi-table-out-of-step", SEVERITY_ERROR, "The table of .eh_frame_hdr does not match .eh_frame",
     "Unwinders find FDEs by binary search in this table, so exceptions and backtraces fail in functions to which "
     "it does not lead.",
     "Link again with --eh-frame-hdr, and let no later tool change .eh_frame without its table."},
	{"ETCH-C006", "sframe-malformed", SEVERITY_ERROR, "A section .sframe is malformed",
     "Stack traces by SFrame stop, or go wrong, in this file.", "Find the tool that wrote the section; link again."},
	{"ETCH-C007", "sframe-contradicts-code", SEVERITY_ERROR, ".sframe contradicts the code",
     "At this instruction .sframe describes another frame than the one that the code has set up, so stack traces go "
     "wrong here.",
     "In assembly, correct the .cfi directives, from which the assembler makes .sframe; or use etch rewrite --sframe."},
	{"ETCH-C008", "cfi-not-read", SEVERITY_WARNING, "An entry of .eh_frame is of a kind that etch does not read",
     "Its functions have rows from the code alone, and none of their rules is checked.",
     "Find the tool that wrote the section: no compiler writes such entries."},
	{"ETCH-I001", "unknown-relocation", SEVERITY_WARNING, "An unexpected relocation against an etched object",
     "The operand refers to the object in a way that etch does not support. It counts as an escape, so the object "
     "starts unarmed.",
     "Compile the files that use etched objects with the small or medium code model; or call etch_sync once the "
     "object is set up."},
	{"ETCH-I002", "access-past-end", SEVERITY_WARNING, "A read past the end of its etched object",
     "etch does not track the bytes after the object, so the load stays a load. Usually this is a bug in the program.",
     "Read the object with its own type, and declare it in one header."},
	{"ETCH-I003", "no-object-symbol", SEVERITY_WARNING,
     "A reference into an etched section where the symbol table has no object",
     "etch knows an object by its symbol, of type object and with a size. Without one all objects of the section "
     "start unarmed.",
     "In assembly, write .type and .size. Do not strip object files before etch has seen them."},
	{"ETCH-I004", "table-full", SEVERITY_WARNING, "The tables cannot grow: sites stay loads or indirect calls",
     "These sites work and read memory, but they are never patched.",
     "Run the object step before the link, so that the linker makes space for the tables."},
	{"ETCH-I005", "plain-store", SEVERITY_WARNING, "A plain store to an etched object",
     "It bypasses etch_set, so immediates elsewhere would become stale. The object is therefore not armed until "
     "etch_sync.",
     "Use etch_set instead of the store; or call etch_sync once the program has set the object up."},
	{"ETCH-I006", "address-escapes", SEVERITY_NOTE, "The address of an etched object escapes",
     "Any code that has the address may store to the object, so it is not armed until etch_sync.",
     "Pass values, or ETCH_ADDR to functions of libetch; or call etch_sync after the last store."},
	{"ETCH-I007", "load-not-live", SEVERITY_NOTE, "A load of an etched object that cannot be patched while threads run",
     "It stays a load, which is always correct, and costs a memory access.",
     "See 'Why a load stays a load' in findings.md of the documentation; imv_read aligns its loads."},
	{"ETCH-I008", "part-not-linked", SEVERITY_WARNING, "Sites that the linked part of libetch cannot change",
     "Only the parts of libetch.a that a program uses are linked; for imv_set alone, that is the part that changes "
     "the loads of imv_read. Other sites work and read memory, but they are never patched.",
     "Link with -Wl,-u,etch_part_objects; or call etch_set or etch_sync, which link it; or run the object step."},
	{"ETCH-P001", "native-refused", SEVERITY_WARNING, "A PV_NATIVE sequence is not usable",
     "Calls of the function stay direct calls.",
     "The message gives the reason. Both decoders must agree on the sequence, and it must not use the stack or "
     "branch."},
	{"ETCH-P002", "call-not-live", SEVERITY_NOTE,
     "A call through an etched object that cannot be patched while threads run",
     "It stays an indirect call, which is always correct.",
     "See 'Why a call stays indirect' in findings.md of the documentation; etch/pv.h aligns its calls; etch_seal "
     "patches them before threads start."},
	{"ETCH-T001", "no-unwind-table", SEVERITY_WARNING, "No unwind table was made",
     "The file works as before, without the table.", "The message gives the reason."},
	{"ETCH-T002", "rows-lost", SEVERITY_WARNING, "Unwind rows do not fit the orc encoding",
     "They are undefined in the table, so backtraces stop there.", "Use the block encoding."},
	{"ETCH-T003", "table-out-of-step", SEVERITY_ERROR, "A table does not match the code that it describes",
     "The code or the table was changed after etch rewrite. At best, libetch refuses such sites.",
     "Rebuild the file and let etch rewrite be the last tool that changes it."},
	{"ETCH-T004", "table-malformed", SEVERITY_ERROR, "A table of unwind rows is malformed",
     "Readers use binary search, so they do not find rows that are out of order.",
     "Rewrite the linked file: etch rewrite sorts the arrays and makes the lookup."},
	{"ETCH-T005", "code-too-far", SEVERITY_WARNING, "Some code is too far from the rest for the unwind table",
     "A table takes space for the gap, too. Walks through that code use .eh_frame if it has FDEs for the code, and "
     "end otherwise.",
     "Link all code into one segment, or leave it as it is."},
	{"ETCH-X001", "ex-malformed", SEVERITY_ERROR, "An entry of the exception table is malformed",
     "libetch ignores a table that it cannot trust, so a fault at any of the table's instructions ends the program.",
     "Use the macros of etch/extable.h."},
	{"ETCH-X002", "ex-not-ours", SEVERITY_NOTE, "A section __ex_table that is not etch's",
     "It is neither checked nor changed: the Linux kernel and its modules have one of the same name.",
     "In the kernel nothing needs to be done. Otherwise use the macros of etch/extable.h, and link without "
     "--emit-relocs."},
	{"ETCH-X003", "ex-no-instruction", SEVERITY_ERROR, "An exception table entry that is not for an instruction",
     "No fault can happen exactly there, so the entry is never found, and the fault for which it was meant ends the "
     "program.",
     "Put the label right before the instruction."},
	{"ETCH-X004", "ex-no-access", SEVERITY_ERROR, "An exception table entry's instruction accesses no memory",
     "It never faults on a memory access, so the entry is useless or was meant for another instruction.",
     "Put the label right before the access."},
	{"ETCH-X005", "ex-fixup", SEVERITY_ERROR, "An exception table entry continues at an unusable place",
     "After a fault the program would continue in data, in the middle of an instruction, or in another function.",
     "Put the fixup into the same function or a fixup section."},
	{"ETCH-X006", "ex-register", SEVERITY_ERROR, "An exception table entry uses the stack pointer as a value",
     "The fixup would run without a stack.", "Name another register."},
	{"ETCH-X007", "ex-duplicate", SEVERITY_WARNING, "Two exception table entries for one instruction",
     "The first is used. If both are the same, only space is lost.", "Remove one."},
	{"ETCH-X008", "ex-frame", SEVERITY_WARNING, "Instructions with different frames continue at one fixup",
     "The stack depth at the fixup depends on which instruction faulted, so the code there is right for only one of "
     "them.",
     "Let all instructions of a fixup have the same frame, or give each a fixup of its own."},
	{"ETCH-H001", "writable-code", SEVERITY_ERROR, "Memory that is writable and executable",
     "Whoever can write there can run code. (libetch does not need it: it makes single pages writable during a set.)",
     "Find the section or the linker option (-z rwx-segments, -N, --omagic) that causes it."},
	{"ETCH-H002", "executable-stack", SEVERITY_ERROR, "The stack is executable",
     "Data on the stack can be run as code.",
     "In assembly, write .section .note.GNU-stack,\"\",@progbits. In GNU C, do not take the address of nested "
     "functions. Or link with -Wl,-z,noexecstack."},
	{"ETCH-H003", "text-relocations", SEVERITY_WARNING, "The dynamic linker writes to the text",
     "The pages are private to each process, and systems that forbid writing to code refuse to load the file.",
     "Compile with -fPIC or -fPIE. With -Wl,-z,text the linker names the objects."},
	{"ETCH-H004", "endbr-missing", SEVERITY_WARNING, "No endbr64 at the target of an indirect call or jump",
     "The file says that it supports IBT. On a system that enforces IBT, the jump ends the program.",
     "Begin such functions with endbr64 (_CET_ENDBR of cet.h in assembly); compile everything with -fcf-protection."},
	{"ETCH-H005", "straight-line-speculation", SEVERITY_NOTE, "No int3 after a return or an indirect jump",
     "The CPU may speculatively execute what follows.",
     "Compile with -mharden-sls=all. In assembly, write int3 after ret and jmp *."},
};
const size_t catalogue_count = sizeof(catalogue) / sizeof(catalogue[0]);

/* The messages that libetch prints at run time (lib/patch/trap.c). */
static const struct catalogue_entry at_run_time[] = {
	{.id = "ETCH-I101",
     .name = "stray-store-fatal",
     .title = "A plain store to an object whose value is in the code, which ends the program",
     .why =
         "No tool saw the store. It was made through a pointer from ETCH_ADDR, by a library that was loaded later, or "
         "by a debugger. The store ends the program if the object is an ops table or sealed, or shares a page with "
         "one; if ETCH_STRAY=die is set; or if its constants could not be given up. A SIGSEGV handler of the program "
         "may still go on.",
     .fix = "Use etch_set or imv_set; or call etch_release before a phase of such stores, and etch_sync after it."},
	{.id = "ETCH-I102",
     .name = "stray-store",
     .title = "A plain store to an object whose value was in the code",
     .why = "No tool saw the store, as for ETCH-I101. The program goes on, and all that is on the page is read from "
            "memory until etch_sync. ETCH_STRAY=warn reports the first store of each page.",
     .fix = "Nothing is wrong if such stores are rare: each costs about as much as a set. Otherwise use etch_set or "
            "imv_set; or call etch_release before a phase of such stores, and etch_sync after it."},
};

const char *severity_name(enum severity s)
{
	static const char *const names[] = {"note", "warning", "error"};

	return names[s];
}

const char *catalogue_group(const struct catalogue_entry *e)
{
	static const struct {
		char letter;
		const char *name;
	} groups[] = {
		{'N', "input"}, {'D', "decode"}, {'F', "flow"}, {'S', "stack"},   {'C', "cfi"},
		{'I', "imv"},   {'P', "pv"},     {'T', "orc"},  {'X', "extable"}, {'H', "hardening"},
	};
	size_t i;

	for (i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		if (e->id[sizeof("ETCH-") - 1] == groups[i].letter)
			return groups[i].name;
	return "other";
}

static const struct catalogue_entry *find_in(const struct catalogue_entry *list, size_t count, const char *id)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!strcmp(id, list[i].id) || !strcmp(id, list[i].name))
			return &list[i];
	return NULL;
}

const struct catalogue_entry *catalogue_find(const char *id) { return find_in(catalogue, catalogue_count, id); }

const struct catalogue_entry *catalogue_find_at_run_time(const char *id)
{
	return find_in(at_run_time, sizeof(at_run_time) / sizeof(at_run_time[0]), id);
}
