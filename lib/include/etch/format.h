/* SPDX-License-Identifier: MIT */
/*
 * etch/format.h: the tables that the tool writes and libetch reads.
 *
 * This header is the whole contract between tool and library: record layouts, their encoders and
 * decoders, and nothing that needs libc. docs/formats.md describes the tables in prose, to the bit.
 * The instruction encodings of the sites are in etch/forms.h.
 *
 * Every reference is 32 bits, relative to the address of the field that holds it, so that no table
 * needs a dynamic relocation in a PIE or a shared object. All integers are little-endian.
 */
#ifndef ETCH_FORMAT_H
#define ETCH_FORMAT_H

/* The types of <stdint.h>. That header is not included, because the first header of a C library that a file includes
 * freezes its feature macros (_GNU_SOURCE). C11 and C++ allow a typedef to be repeated. */
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;

#ifdef __cplusplus
extern "C" {
#endif

/* ---- section names ------------------------------------------------------ */

#define ETCH_SEC_OBJECT "etched"       /* ETCHED objects: each on pages of its own */
#define ETCH_SEC_SCALAR "etched_imv"   /* DEFINE_IMV and ETCHED_SHARED objects: 8-byte cells sharing pages */
#define ETCH_SEC_DENSE  "etched_dense" /* ETCHED_DENSE objects: without padding, among other data */
#define ETCH_SEC_INIT   "etch_init"    /* ETCH_INIT functions, which only run before etch_sync */
/* The beginning of the names of the sections of ETCH_TABLE: tables of addresses that only sets store through. */
#define ETCH_SEC_TABLE  "etch_table."
#define ETCH_SEC_IMV    "__imv"       /* struct etch_imv[] */
#define ETCH_SEC_PV     "__pv_sites"  /* struct etch_imv[], of the forms of etch/pv_forms.h */
#define ETCH_SEC_NATIVE "__pv_native" /* struct etch_native[] */
#define ETCH_SEC_INLINE "__pv_inline" /* struct etch_inline[] */
#define ETCH_SEC_OBJ    "__etch_obj"  /* struct etch_obj[] */
#define ETCH_SEC_MODULE "__etch_mod"  /* struct etch_module, one per translation unit; the first one counts */
/* A section of a linked file that is not loaded: the addresses, 8 bytes each, of functions that `etch rewrite --init`
 * named. */
#define ETCH_SEC_INIT_LIST ".etch.init"
#define ETCH_SEC_NAMES     ".rodata.etch" /* NUL-terminated object names */
/* NUL-terminated names of symbols declared with ETCH_DECLARE; the linker drops the section. */
#define ETCH_SEC_DECLARE ".etch.declare"

/*
 * The 16 bytes after the 8-byte cell of every etch::value, as two little-endian integers. They are random, and the
 * cell is aligned to 8. A type cannot place its variables in a section, so these bytes tell a value from other data.
 */
#define ETCH_VALUE_MARK_0 0x9c1f6e35a2d84b07u
#define ETCH_VALUE_MARK_1 0xd3b07a4ce5916f28u
/* The 16 bytes after the slots of every etch::ops, for the same purpose. 8 bytes with the size of the slots follow
 * them. */
#define ETCH_OPS_MARK_0 0xb5a1470e9d36f2c8u
#define ETCH_OPS_MARK_1 0x6e93d80b57fc2a41u
#define ETCH_OPS_MOST   4096u /* maximum size of the slots, in bytes */

/* Each part of libetch that is linked into a program statically adds a 4-byte number (enum etch_part) here. */
#define ETCH_SEC_PART "__etch_part"

#define ETCH_PAGE 4096u /* x86-64 base page: the granularity of mprotect(2) */

/* ---- __etch_part: what of libetch a static program has --------------------- */

/*
 * A static program links the parts of libetch that its headers and the object step name, by undefined symbols. A file
 * without the section has all parts, or uses libetch.so.
 */
enum etch_part {
	ETCH_PART_CORE = 1,     /* linked modules: loads that etch_form_is_core() accepts, in one aligned 8-byte word, not
	                         * through the GOT */
	ETCH_PART_OTHERS = 2,   /* objects of other modules */
	ETCH_PART_OBJECTS = 3,  /* every site, wherever it is; modules not seen by the link step; includes OTHERS */
	ETCH_PART_BRANCHES = 4, /* __etch_branch */
	ETCH_PART_LAST = 4,
};
#define ETCH_PART_OTHERS_SYMBOL   "etch_part_others"
#define ETCH_PART_OBJECTS_SYMBOL  "etch_part_objects"
#define ETCH_PART_BRANCHES_SYMBOL "etch_part_branches"

/* ---- __imv: load sites --------------------------------------------------- */

/* How the instruction addresses its object (bits 4-5 of etch_imv.shape). */
enum etch_addressing {
	ETCH_ADDR_RIP = 0,  /* disp32(%rip) */
	ETCH_ADDR_ABS = 1,  /* disp32, SIB without base and index (non-PIC) */
	ETCH_ADDR_BASE = 2, /* 0(%base) with a 4-byte displacement of zero */
	ETCH_ADDR_DISP = 3, /* disp(%base), of struct etch_imv_more */
};

#define ETCH_IMV_BAKED 0x01u /* the bytes at the site are the immediate form (set by the link step) */
#define ETCH_IMV_GOT   0x02u /* obj refers to an 8-byte slot that holds the object's address */
#define ETCH_IMV_MORE  0x04u /* the record after this one is its struct etch_imv_more */
#define ETCH_IMV_FLAGS 0x07u /* every defined flag; any other bit set makes the entry malformed */

/*
 * One instruction that reads an etched object. 12 bytes, 4-byte aligned. An entry whose form is
 * ETCH_FORM_NONE is empty: all twelve bytes are zero. In a linked file that the link step has seen,
 * entries are sorted by (ETCH_IMV_GOT, address of obj, address of site), empty ones last.
 */
struct etch_imv {
	int32_t site;  /* first byte of the instruction, relative to &site */
	int32_t obj;   /* first byte that the instruction reads (or, with
	                * ETCH_IMV_GOT, the slot), relative to &obj */
	uint8_t form;  /* enum etch_form */
	uint8_t regs;  /* bits 0-3 destination, bits 4-7 base (ETCH_ADDR_BASE, ETCH_ADDR_DISP, else 0) */
	uint8_t shape; /* bits 0-3 length in bytes, 4-5 addressing, 6 REX prefix present, 7 zero */
	uint8_t flags; /* ETCH_IMV_* */
};

static inline unsigned etch_imv_len(const struct etch_imv *e) { return e->shape & 15u; }
static inline unsigned etch_imv_addressing(const struct etch_imv *e) { return (e->shape >> 4) & 3u; }
static inline unsigned etch_imv_rex(const struct etch_imv *e) { return (e->shape >> 6) & 1u; }
static inline unsigned etch_imv_reg(const struct etch_imv *e) { return e->regs & 15u; }
static inline unsigned etch_imv_base(const struct etch_imv *e) { return e->regs >> 4; }

/*
 * The second record of an entry of __imv with ETCH_IMV_MORE: the operands that do not fit in the entry's own 12
 * bytes. It takes the place of the next entry, and moves together with its own.
 */
struct etch_imv_more {
	int32_t disp;  /* displacement of the operand, as encoded (ETCH_ADDR_DISP, else 0) */
	int32_t imm;   /* the constant that memory is compared with, sign-extended; 0 without one */
	uint8_t form;  /* ETCH_FORM_MORE (etch/forms.h) */
	uint8_t need;  /* ETCH_NEED_*: the conditions that later instructions test */
	uint8_t shape; /* bits 0-2 bytes of the constant, bits 4-6 bytes of the displacement, bits 3 and 7 zero */
	uint8_t flags; /* ETCH_IMV_GOT as in the entry; the other bits zero */
};

/* The conditions that the flags of a compare of a with b decide. */
#define ETCH_NEED_EQUAL 0x01u /* ZF: a == b */
#define ETCH_NEED_BELOW 0x02u /* CF: a < b, unsigned */
#define ETCH_NEED_LESS  0x04u /* SF != OF: a < b, signed */
#define ETCH_NEED_FLAGS 0x07u

static inline unsigned etch_more_imm_len(const struct etch_imv_more *m) { return m->shape & 7u; }
static inline unsigned etch_more_disp_len(const struct etch_imv_more *m) { return (m->shape >> 4) & 7u; }

/*
 * Can one store replace this instruction while threads run? It can if all of the instruction lies inside one
 * naturally aligned 8-byte word (AMD64 APM vol. 2, 7.6.1). Any other instruction is replaced with its page.
 */
static inline int etch_site_is_live(uint64_t site, unsigned len) { return len >= 1 && (site & 7u) + len <= 8; }

/* ---- __pv_native: sequences that may replace a call ------------------------- */

#define ETCH_NATIVE_MOST    15u   /* maximum length in bytes of a sequence that is recorded */
#define ETCH_NATIVE_CHECKED 0x01u /* set by the tool: both decoders agree, the calling convention is kept */
#define ETCH_NATIVE_ONE     0x02u /* CHECKED, and it is one instruction, which prefixes may pad */

/*
 * A function made by PV_NATIVE: its instructions, without the endbr64 before them and the ret after
 * them. Only CHECKED sequences are inlined. 12 bytes, 4-byte aligned.
 */
struct etch_native {
	int32_t func;  /* the function, relative to &func */
	int32_t code;  /* first byte of its sequence, relative to &code */
	uint8_t len;   /* bytes; 0 = does nothing */
	uint8_t flags; /* ETCH_NATIVE_* */
	uint16_t zero;
};

/* ---- __pv_inline: cases that are compiled in place --------------------------- */

/*
 * A jump to an indirect call through `slot`. A nop replaces it while the slot holds `func`, so that
 * execution falls through to code, compiled in place, that does what this function does. The
 * compiler writes the entry (pv_call_inline), and the tool leaves it unchanged. An entry whose code
 * the linker has dropped refers to no code. 12 bytes, 4-byte aligned.
 */
struct etch_inline {
	int32_t site; /* first byte of the jump, relative to &site */
	int32_t slot; /* the function pointer, relative to &slot */
	int32_t func; /* the function whose case is compiled in place, relative to &func */
};

/* ---- __etch_obj: etched objects, and what the tool saw done to them ------ */

/* The kinds of records of __etch_obj (etch_obj.kind). */
enum etch_obj_kind {
	ETCH_OBJ_NONE = 0,   /* empty: all sixteen bytes are zero */
	ETCH_OBJ_OBJECT = 1, /* an etched object: addr, size, name */
	ETCH_OBJ_STORE = 2,  /* fact: the instruction at `ref` is a plain store to addr */
	ETCH_OBJ_ESCAPE = 3, /* fact: the instruction or data word at `ref` lets addr escape */
};

/* Flags of an ETCH_OBJ_OBJECT record. The link step sets STORED and ESCAPED when it folds facts into the object;
 * ARMED is its verdict. */
#define ETCH_OBJ_STORED  0x01u /* the linked file contains a plain store to it */
#define ETCH_OBJ_ESCAPED 0x02u /* the linked file takes its address */
#define ETCH_OBJ_ARMED   0x04u /* its live sites hold immediates from the start */
#define ETCH_OBJ_SHARED  0x08u /* lives in ETCH_SEC_SCALAR: shares its pages with others */
/* Set by the object step: other files of the link can name the object and store to it, so only the link step can
 * decide. Clear for static objects, and for those of DEFINE_IMV, whose names (NAME__imv) are reserved for etch. */
#define ETCH_OBJ_OPEN 0x10u
/* Set by the link step: the file was stripped of symbols, and this record covers an object or a part of one. A range
 * that one call sets may span several such records. */
#define ETCH_OBJ_PART 0x20u
/* The cell of an etch::value, or the slots of an etch::ops (C++), in any writable section. Only etch_set writes to
 * it, so nobody counts its addresses and stores, and its page stays writable. */
#define ETCH_OBJ_VALUE 0x40u
/* Flag of a fact: addr refers to an 8-byte slot that holds the object's address. */
#define ETCH_OBJ_GOT 0x80u

/* The bits of `more`, set by the link step. An object whose stores are known by their bytes has a record for each run
 * of bytes with the same facts: the first record has the object's name and is like any other; the others have FIELD,
 * and each begins where the one before it ends. */
/* Object: the record continues the previous one. Fact with ETCH_OBJ_GOT: `size` is an ETCH_FACT_BYTES. */
#define ETCH_OBJ_FIELD 0x01u
/* Object: code, or whoever keeps its address, may still store to it after etch_sync. etch_sync then does not arm the
 * object if it is a field, or if its page stays writable (ETCH_OBJ_DENSE). */
#define ETCH_OBJ_KEPT 0x02u
/* Object: it is unknown which of its bytes its facts concern. A later link step needs to know this. */
#define ETCH_OBJ_VAGUE 0x04u
/* Object, set already by the object step: it lies in ETCH_SEC_DENSE. Unless that section consists of whole pages, the
 * object's page stays writable, so etch_sync arms the object only if nothing stores to it later (ETCH_OBJ_KEPT);
 * without the link step, only if no record of a fact is about it. */
#define ETCH_OBJ_DENSE 0x08u
/* Object: a system call may store to it. On a read-only page the call would fail, and no handler can help, so the
 * object is never armed by making its page read-only. */
#define ETCH_OBJ_KERNEL 0x10u
#define ETCH_OBJ_MORE   0x1fu /* every defined bit */
/* The bytes of a fact with FIELD: the offset of the first one in the object, and their number. */
#define ETCH_FACT_BYTES(from, count) ((uint32_t)(from) | (uint32_t)(count) << 24)
#define ETCH_FACT_FROM(size)         ((uint32_t)(size)&0xffffffu)
#define ETCH_FACT_COUNT(size)        ((uint32_t)(size) >> 24)

/* 16 bytes, 4-byte aligned. Sorted by the link step: objects by address, then facts that could not be folded into an
 * object of this file, then empty records. */
struct etch_obj {
	int32_t addr;  /* first byte of the object (fact: the byte concerned), relative to &addr */
	uint32_t size; /* bytes; 0 in a fact, or with ETCH_OBJ_FIELD its ETCH_FACT_BYTES */
	int32_t ref;   /* object: its name, NUL-terminated; fact: where it is; relative to &ref */
	uint8_t kind;  /* enum etch_obj_kind */
	uint8_t flags; /* ETCH_OBJ_* */
	uint16_t more; /* ETCH_OBJ_MORE: ETCH_OBJ_FIELD and those after it */
};

/* ---- __etch_mod: one module (program or shared object) ------------------- */

#define ETCH_MODULE_MAGIC   0x68637465u /* "etch" */
#define ETCH_MODULE_VERSION 1u
#define ETCH_MODULE_LINKED  0x01u /* the link step has run: tables sorted, values baked, facts folded */
#define ETCH_MODULE_MOVED   0x02u /* imv/obj below locate the tables, not __start_/__stop_ symbols */
#define ETCH_MODULE_SWAP    0x04u /* a baked site is not in one aligned 8-byte word: sets swap its page */
#define ETCH_MODULE_CLOSED  0x08u /* linked such that no other module uses the names that this one exports */
#define ETCH_MODULE_FLAGS   0x0fu /* every defined flag; any other bit set makes the module malformed */

/*
 * Emitted by <etch/imv.h> once per translation unit as a weak hidden constant; the linker keeps
 * one definition per module. The link step edits every copy in the same way. 64 bytes, 8-byte
 * aligned.
 */
struct etch_module {
	uint32_t magic;   /* ETCH_MODULE_MAGIC */
	uint16_t version; /* ETCH_MODULE_VERSION */
	uint16_t size;    /* sizeof(struct etch_module) */
	uint32_t flags;   /* ETCH_MODULE_* */
	uint32_t zero;
	int64_t imv;        /* with MOVED: table of __imv, relative to &imv */
	uint64_t imv_count; /* entries */
	int64_t obj;        /* with MOVED: table of etch_obj, relative to &obj */
	uint64_t obj_count;
	int64_t pv; /* with MOVED: table of __pv_sites, relative to &pv */
	uint64_t pv_count;
};

#ifdef __cplusplus
static_assert(sizeof(struct etch_imv) == 12 && sizeof(struct etch_imv_more) == 12 && sizeof(struct etch_native) == 12 &&
                  sizeof(struct etch_inline) == 12 && sizeof(struct etch_obj) == 16 && sizeof(struct etch_module) == 64,
              "table layouts are fixed");
#else
/* Separate assertions, because clang 16 warns about a constant operand of && in C23. */
_Static_assert(sizeof(struct etch_imv) == 12, "table layouts are fixed");
_Static_assert(sizeof(struct etch_imv_more) == 12, "table layouts are fixed");
_Static_assert(sizeof(struct etch_native) == 12, "table layouts are fixed");
_Static_assert(sizeof(struct etch_inline) == 12, "table layouts are fixed");
_Static_assert(sizeof(struct etch_obj) == 16, "table layouts are fixed");
_Static_assert(sizeof(struct etch_module) == 64, "table layouts are fixed");
#endif

#ifndef __cplusplus /* for the tool and the library, which are C */
/* The address that a self-relative field refers to, in the same address space as `at`, the address of the field
 * itself. */
static inline uint64_t etch_ref(uint64_t at, int32_t rel) { return at + (uint64_t)(int64_t)rel; }
#endif

#ifdef __cplusplus
}
#endif
#endif
