/* SPDX-License-Identifier: MIT */
/* The text of every finding, and lookups by ID, name and group. */
#include "report/catalogue.h"

#include <string.h>

const struct catalogue_entry catalogue[] = {
	{"ETCH-N001", "symbol-without-size", SEVERITY_NOTE, "Function symbol without a size",
     "Where the function ends is not known; etch takes it to end where the next symbol begins. "
     "Profilers and debuggers guess the same way.",
     "In assembly: .size name, .-name behind the function."},
	{"ETCH-N002", "runtime-conventions", SEVERITY_WARNING, "Code of a language runtime with conventions of its own",
     "The compilers of OCaml, Dart, V8 and Go keep registers and frames by other rules than the psABI's, "
     "and some write .eh_frame that is not right for them. What follows from that in single functions "
     "is counted here.",
     "Nothing in the source can change it; --each has the single findings, for those who write the "
     "compiler. etch's rows are those of the code."},
	{"ETCH-D001", "decoders-disagree-at-site", SEVERITY_WARNING,
     "The decoders disagree about an instruction that reads an etched object",
     "No byte is rewritten unless Zydis and Capstone agree on its length and operands, so the load "
     "stays a load.",
     "Write the access plainly; or report the bytes as a decoder's bug."},
	{"ETCH-D002", "etched-reference-in-data", SEVERITY_WARNING,
     "A relocation against an etched object lies in bytes that do not decode",
     "etch cannot tell a read from a store there: the object counts as escaped and starts unarmed.",
     "Put data into a data section, or behind the code under a function symbol of its own."},
	{"ETCH-D003", "site-is-not-there", SEVERITY_WARNING, "A table entry points at bytes that are not its load",
     "The object step recorded an instruction that the linked file does not have. The entry is "
     "dropped.",
     "Build the object again; no other tool may change code between the two steps."},
	{"ETCH-D004", "decoders-disagree", SEVERITY_NOTE, "The decoders disagree about an instruction",
     "Zydis and Capstone see different lengths or operands. One of the two is wrong, or the encoding "
     "is not settled between vendors; etch changes no byte near it.",
     "Nothing, where it is a decoder's gap; else report the bytes."},
	{"ETCH-D005", "flow-into-no-instruction", SEVERITY_WARNING, "Control reaches bytes that are no instruction",
     "The path ends in an invalid opcode, or etch has followed a path that the program never takes, as "
     "behind a call that does not return and that nobody declared so.",
     "Declare the function noreturn; mark data in code with a symbol of its own; or it is a bug in the "
     "assembly."},
	{"ETCH-D006", "branch-into-instruction", SEVERITY_NOTE, "A branch goes into the middle of another instruction",
     "The bytes are executed in two ways. Hand-written code does this to skip a lock prefix; unwinders "
     "and patchers of code see one of the two.",
     "Put a label before an instruction of its own."},
	{"ETCH-F001", "falls-through", SEVERITY_WARNING, "Control falls through into the next function",
     "The last instruction of the function goes on into whatever the linker put next. With sections "
     "reordered that is another function.",
     "End the function with a return, a jump or a call of a function declared noreturn; give assembly "
     "entry points one symbol with a size over all."},
	{"ETCH-F002", "unreachable", SEVERITY_NOTE, "Instructions that nothing reaches",
     "No direct path, table, landing pad or symbol leads there: dead code, mostly behind a call that "
     "does not return; or a path that etch does not see.",
     "Declare what does not return noreturn, so that compilers leave out what is behind its calls; "
     "remove the code; or give the entry a symbol."},
	{"ETCH-F003", "target-missing", SEVERITY_ERROR, "A call or jump leads out of all code of the file",
     "When it is executed the program goes on in data or in unmapped memory.",
     "Look at the relocation or the offset by which the target was written."},
	{"ETCH-F004", "tail-call-with-frame", SEVERITY_WARNING, "A jump to another function with a modified stack frame",
     "The function jumped to returns to what lies on top of the stack, which is not the return "
     "address, or finds registers that its caller's caller wants back.",
     "Restore the frame before the jump."},
	{"ETCH-F005", "intra-function-call", SEVERITY_NOTE, "A function calls into its own middle",
     "The code there is both a part of the function and a function: profilers and backtraces show the "
     "outer one, and .eh_frame has one frame for both.",
     "Give what is called a symbol of its own."},
	{"ETCH-F006", "end-of-section", SEVERITY_WARNING, "Control runs off the end of the section",
     "Behind the last instruction lies whatever the linker puts there.",
     "End it with a return, a jump, ud2, or a call of a function declared noreturn."},
	{"ETCH-S001", "stack-state-mismatch", SEVERITY_WARNING, "Two paths meet with different stack frames",
     "What follows cannot be right for both: the return or an unwinder takes the wrong word for the "
     "return address on one of them.",
     "Look at the two paths shown: one has a push, pop or adjustment of rsp more than the other."},
	{"ETCH-S002", "return-with-frame", SEVERITY_ERROR, "A return with a modified stack frame",
     "The word on top of the stack is not the return address: the return goes wherever that word "
     "points.",
     "Balance every push, pop and adjustment of rsp on the way to the return."},
	{"ETCH-S003", "undefined-stack-state", SEVERITY_NOTE, "An instruction whose stack frame is not known",
     "Neither the code nor .eh_frame tells where the return address is: backtraces and exceptions "
     "through here stop.",
     "Set up a frame pointer around what changes rsp, or write .cfi directives."},
	{"ETCH-S004", "stack-pointer-lost", SEVERITY_NOTE, "The stack pointer is changed in a way that cannot be followed",
     "From here on rsp is not known relative to the frame; a frame pointer or .eh_frame must say it.",
     "Keep a frame pointer in functions that do so, or write .cfi directives."},
	{"ETCH-S005", "register-lost", SEVERITY_ERROR, "A callee-saved register is not restored at a return",
     "The caller goes on with another value in a register that the ABI lets it keep one in (System V "
     "psABI 3.2.1).",
     "Save the register at the start and restore it on every way out."},
	{"ETCH-S006", "direction-flag", SEVERITY_ERROR,
     "The direction flag is set at a call, jump to a function, or return",
     "The ABI has it clear there (System V psABI 3.2.1): the next string instruction, as in memcpy, "
     "runs backwards.",
     "cld before the call or return."},
	{"ETCH-C001", "cfi-contradicts-code", SEVERITY_ERROR, ".eh_frame contradicts the code",
     "At this instruction .eh_frame says that the frame is somewhere else than the instructions have "
     "put it. Exceptions, profilers and debuggers that ask it go wrong here.",
     "In assembly: correct the .cfi directives; from a compiler: report it. etch's row is that of the "
     "code."},
	{"ETCH-C002", "cfi-without-row", SEVERITY_NOTE, ".eh_frame has what no row can say",
     "The rule is a DWARF expression or the like, for which the row formats have no form: the row is "
     "made from the code, or undefined.",
     "Nothing, unless backtraces through this function matter; then a frame pointer."},
	{"ETCH-C003", "cfi-missing", SEVERITY_NOTE, "A function without an FDE in a file that has .eh_frame",
     "Unwinders that know only .eh_frame stop here; an exception thrown through it ends the program.",
     "In assembly: .cfi_startproc and .cfi_endproc; else compile with -fasynchronous-unwind-tables."},
	{"ETCH-C004", "cfi-malformed", SEVERITY_ERROR, "An entry of .eh_frame is malformed",
     "Unwinders leave it out, stop at it, or crash on it.", "Find out which tool wrote the section; link again."},
	{"ETCH-I001", "unknown-relocation", SEVERITY_WARNING, "An unexpected relocation against an etched object",
     "The operand refers to the object in a way that etch does not know. It counts as an escape: the "
     "object starts unarmed.",
     "Compile the files that use etched objects with the small or medium code model; or call etch_sync "
     "once the object is set up."},
	{"ETCH-I002", "access-past-end", SEVERITY_WARNING, "A read past the end of its etched object",
     "The bytes behind the object are nobody's to look after: the load stays a load. Mostly it is a "
     "bug of the program.",
     "Read the object by its own type, and declare it in one header."},
	{"ETCH-I003", "no-object-symbol", SEVERITY_WARNING,
     "A reference into an etched section where the symbol table has no object",
     "etch knows an object by its symbol, of type object and with a size. Without one all objects of "
     "the section start unarmed.",
     "In assembly: .type and .size; do not strip object files before etch has seen them."},
	{"ETCH-I004", "table-full", SEVERITY_WARNING, "The tables cannot grow: sites stay loads or indirect calls",
     "These sites work, from memory, and are never patched.",
     "Run the object step before the link, so that the linker makes the room."},
	{"ETCH-I005", "plain-store", SEVERITY_WARNING, "A plain store to an etched object",
     "It bypasses etch_set: immediates elsewhere would go stale. The object is therefore not armed "
     "until etch_sync.",
     "etch_set in place of the store; or etch_sync once the program has set the object up."},
	{"ETCH-I006", "address-escapes", SEVERITY_NOTE, "The address of an etched object gets out of sight",
     "Whoever has the address may store to the object, so it is not armed until etch_sync.",
     "Pass values, or ETCH_ADDR to functions of libetch; or etch_sync after the last store."},
	{"ETCH-I007", "load-not-live", SEVERITY_NOTE, "A load of an etched object that cannot be patched while threads run",
     "It stays a load, which is always right, and costs a memory access.",
     "See the phrase under 'Why a load stays a load'; imv_read places its loads."},
	{"ETCH-P001", "native-refused", SEVERITY_WARNING, "A PV_NATIVE sequence is not usable",
     "Calls of the function stay direct calls.",
     "See the reason; the sequence must be what both decoders agree on and leave stack and control "
     "alone."},
	{"ETCH-P002", "call-not-live", SEVERITY_NOTE,
     "A call through an etched object that cannot be patched while threads run",
     "It stays an indirect call, which is always right.",
     "See the phrase under 'Why a call stays indirect'; etch/pv.h aligns its calls; etch_seal patches "
     "them before threads."},
	{"ETCH-T001", "no-unwind-table", SEVERITY_WARNING, "No unwind table was made",
     "The file works as before, without the table.", "See the reason."},
	{"ETCH-T002", "rows-lost", SEVERITY_WARNING, "Unwind rows do not fit the orc encoding",
     "They are undefined in the table: backtraces stop there.", "Use the block encoding."},
	{"ETCH-T003", "table-out-of-step", SEVERITY_ERROR, "A table is out of step with the text that it is of",
     "The text was changed after etch rewrite, or the table was. libetch refuses such sites at best.",
     "Build the file again and let etch rewrite be the last tool that touches it."},
	{"ETCH-T004", "table-malformed", SEVERITY_ERROR, "A table of unwind rows is malformed",
     "Readers search it by halves and by blocks: what is out of order they do not find.",
     "Rewrite the linked file: etch rewrite sorts the arrays and makes the lookup."},
	{"ETCH-X001", "ex-malformed", SEVERITY_ERROR, "An entry of the exception table is malformed",
     "libetch takes none of a table that it cannot trust: a fault at any of its instructions ends the "
     "program.",
     "Use the macros of etch/extable.h."},
	{"ETCH-X002", "ex-not-ours", SEVERITY_NOTE, "A section __ex_table that is not etch's",
     "It is neither checked nor changed: the Linux kernel and its modules have one of the same name.",
     "Nothing, in the kernel; else the macros of etch/extable.h, and no --emit-relocs."},
	{"ETCH-X003", "ex-no-instruction", SEVERITY_ERROR, "An exception table entry whose instruction is none",
     "No fault can happen exactly there: the entry is never found, and the fault that it was meant for "
     "ends the program.",
     "Put the label right before the instruction."},
	{"ETCH-X004", "ex-no-access", SEVERITY_ERROR, "An exception table entry's instruction accesses no memory",
     "It never faults for what it reads or writes, so that the entry is for nothing, or meant for "
     "another.",
     "Put the label right before the access."},
	{"ETCH-X005", "ex-fixup", SEVERITY_ERROR, "An exception table entry goes on at an unusable place",
     "After a fault the program would go on in data, in the middle of an instruction, or in another "
     "function.",
     "Put the fixup into the same function or a fixup section."},
	{"ETCH-X006", "ex-register", SEVERITY_ERROR, "An exception table entry uses the stack pointer as a value",
     "The fixup would run without a stack.", "Name another register."},
	{"ETCH-X007", "ex-duplicate", SEVERITY_WARNING, "Two exception table entries for one instruction",
     "The first counts. Where both say the same, nothing is lost but space.", "Remove one."},
	{"ETCH-X008", "ex-frame", SEVERITY_WARNING, "Instructions with different frames go on at one fixup",
     "What was pushed when the one faults was not yet, or not any more, when the other does: the code "
     "at the fixup is right for one of them.",
     "Let the instruction that may fault and its fixup have the same frame, or give each a fixup of "
     "its own."},
	{"ETCH-H001", "writable-code", SEVERITY_ERROR, "Memory that is writable and executable",
     "Whoever can write there can run code. (libetch does not need it: it opens single pages for the "
     "time of a set.)",
     "Find the section or the linker option (-z rwx-segments, -N, --omagic) that asks for it."},
	{"ETCH-H002", "executable-stack", SEVERITY_ERROR, "The stack is executable",
     "Data on the stack can be run as code.",
     "Assembly: .section .note.GNU-stack,\"\",@progbits; no nested functions whose address is taken; "
     "-Wl,-z,noexecstack."},
	{"ETCH-H003", "text-relocations", SEVERITY_WARNING, "The dynamic linker writes to the text",
     "The pages are private to each process, and systems that forbid writing to code refuse to load "
     "the file.",
     "Compile with -fPIC or -fPIE; -Wl,-z,text names the objects."},
	{"ETCH-H004", "endbr-missing", SEVERITY_WARNING, "No endbr64 where an indirect call or jump can lead",
     "The file says that it supports IBT: on a system that enforces it the jump ends the program.",
     "Begin such functions with endbr64 (_CET_ENDBR of cet.h in assembly); compile everything with "
     "-fcf-protection."},
	{"ETCH-H005", "straight-line-speculation", SEVERITY_NOTE, "No int3 behind a return or an indirect jump",
     "The CPU may run what follows in speculation.", "-mharden-sls=all; int3 behind ret and jmp * in assembly."},
};
const size_t catalogue_count = sizeof(catalogue) / sizeof(catalogue[0]);

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

const struct catalogue_entry *catalogue_find(const char *id)
{
	size_t i;

	for (i = 0; i < catalogue_count; i++)
		if (!strcmp(id, catalogue[i].id) || !strcmp(id, catalogue[i].name))
			return &catalogue[i];
	return NULL;
}
