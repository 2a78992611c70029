# SPDX-License-Identifier: MIT
# etch: build, test, demo, bench, install. `make help` lists the targets.

B        ?= build
CC       ?= cc
CFLAGS   ?= -O2 -g
VERSION  := 0.1.0
JOBS     ?= 2

PREFIX   ?= /usr/local
LIBDIR   ?= $(PREFIX)/lib
DATADIR  ?= $(PREFIX)/share
MANDIR   ?= $(DATADIR)/man
INSTALL  ?= install
NM       ?= nm
OBJCOPY  ?= objcopy
PYTHON   := .venv/bin/python

# What is made for the prefix: the names of files, from lib/NAME.in.
SUBST    = sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@DATADIR@|$(DATADIR)|; s|@VERSION@|$(VERSION)|'

# A subset of the tests: make test T=tests/arch/test_forms_encoding.py, or T='tests -k fork'.
T        ?= tests
# What else pytest is to know: make test T=... PYTEST_ARGS=-x
PYTEST_ARGS ?=
FUZZ_MINUTES ?= 60

WARN     := -Wall -Wextra -Werror -Wstrict-prototypes -Wmissing-prototypes
TOOL_INC := -Itool -Ilib -Ilib/include
LIB_INC  := -Ilib -Ilib/include
# What the tool is linked with: archives where the system has all that they need (tool/libs.sh). Capstone is loaded when it
# is needed (tool/arch/x86/capstone.c). Square roots need no libm, since -fno-math-errno makes them instructions.
TOOL_LIBS = $$(cat $(B)/tool-libs)
SANITIZE := -Og -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined -DETCH_CHECK_STEPS

TOOL_SRC := $(sort $(shell find tool -name '*.c'))
# lib/interfaces is not part of libetch: a library that has the names of other unwinders' functions.
# Nor is lib/heap, whose functions are malloc and its like, nor lib/exceptions, which has libgcc's.
LIB_SRC  := $(sort $(filter-out lib/interfaces/% lib/heap/% lib/exceptions/%,$(wildcard lib/*/*.c)))
TOOL_OBJ := $(TOOL_SRC:%.c=$(B)/o/%.o) $(B)/o/gen/pprof.pb-c.o
# libetch's walk, with which `etch profile` walks other processes' stacks: the tool's own, too.
WALK_OBJ := $(patsubst %.c,$(B)/o/%.o,$(sort $(wildcard lib/unwind/*.c)))
LIB_ASM  := $(sort $(filter-out lib/interfaces/% lib/exceptions/%,$(wildcard lib/*/*.S)))
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/o/%.o) $(LIB_ASM:%.S=$(B)/o/%.o)
# In the archive, without unwind tables that are loaded: of what every program has, all that runs behind libetch's lock,
# where no cancellation acts and nothing of the caller's is touched. Debuggers have .debug_frame. (libetch(3))
LIB_BARE := arm encoders index module_objects patch patch_list plan sync table_check
ARC_OBJ  := $(foreach o,$(LIB_OBJ),$(if $(filter $(LIB_BARE:%=$(B)/o/lib/patch/%.o),$(o)),$(o:$(B)/o/lib/patch/%=$(B)/o/bare/%),$(o)))
DROP_OBJ := $(patsubst %.c,$(B)/o/%.o,$(sort $(wildcard lib/interfaces/*.c lib/unwind/*.c))) \
	$(B)/o/lib/interfaces/entry_x86.o $(B)/o/lib/interfaces/gcc_entry_x86.o $(B)/o/lib/interfaces/call_on_x86.o
# What `etch heap` preloads: walks by tables that come by themselves, as libetch-unwind's.
HEAP_OBJ := $(patsubst %.c,$(B)/o/%.o,$(sort $(wildcard lib/heap/*.c lib/unwind/*.c))) \
	$(addprefix $(B)/o/lib/interfaces/,own_tables.o call_on_x86.o)
# What raises exceptions, by records that are made of .eh_frame (lib/unwind finds it).
EXC_OBJ  := $(patsubst %.c,$(B)/o/%.o,$(sort $(wildcard lib/exceptions/*.c lib/unwind/*.c))) $(B)/o/lib/exceptions/entry_x86.o
# In a static program these belong to libgcc_eh, whose one object defines them and what raises exceptions.
DROP_ARC := $(filter-out %/gcc_context.o %/gcc_entry_x86.o %/jit_frames.o,$(DROP_OBJ))
LIB_CC   = $(CC) -std=gnu11 -D_GNU_SOURCE -DETCH_NO_MODULE $(CFLAGS) $(WARN) $(LIB_INC) -fPIC -fno-plt -fvisibility=hidden

all: $(B)/etch $(B)/libetch.a $(B)/libetch.so $(B)/etch.pc $(B)/libetch-unwind.so $(B)/libetch-unwind.a $(B)/etch-unwind.pc $(B)/libetch-exceptions.so $(B)/libetch-exceptions.a $(B)/etch-exceptions.pc $(B)/libetch-heap.so	## the tool and the library (default)
	@$(if $(findstring s,$(firstword -$(MAKEFLAGS))),:,echo 'built $(B)/etch and its libraries; next: sudo make install, or $(B)/etch --help')

$(B)/etch: $(TOOL_OBJ) $(WALK_OBJ) | $(B)/tool-libs
	$(CC) $(CFLAGS) $(LDFLAGS) -Wl,--as-needed -o $@ $^ $(TOOL_LIBS)

# Found out once: the objects are linked to see what links.
$(B)/tool-libs: tool/libs.sh | $(TOOL_OBJ) $(WALK_OBJ)
	tool/libs.sh "$(CC) $(CFLAGS) $(LDFLAGS)" $(TOOL_OBJ) $(WALK_OBJ) >$@.new
	mv $@.new $@

# What its files share has names of their own there: a program may well have a list_sort() too.
$(B)/libetch.a: $(ARC_OBJ)
	@rm -rf $@ $(B)/o/archive && mkdir -p $(B)/o/archive
	$(NM) -g --defined-only $^ | sed -n '/ etch_/!s/^[0-9a-f]* [A-Z] \(.*\)/\1 etch_in_\1/p' | sort -u >$(B)/o/archive/names
	for o in $^; do $(OBJCOPY) --redefine-syms=$(B)/o/archive/names $$o $(B)/o/archive/$${o##*/} || exit 1; done
	$(AR) rcs $@ $(B)/o/archive/*.o

$(B)/libetch.so: $(LIB_OBJ) lib/libetch.map $(B)/etch
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libetch.so.0 -Wl,--version-script,lib/libetch.map \
		-Wl,-z,defs,-z,now,-z,nodelete -o $(B)/o/libetch.so.0 $(LIB_OBJ) -pthread
	$(B)/etch rewrite -o $@.0 $(B)/o/libetch.so.0
	ln -sf libetch.so.0 $@

# Linked with libgcc_s, whose functions it goes on to, whether the program has loaded it yet or not.
$(B)/libetch-unwind.so: $(DROP_OBJ) lib/libetch-unwind.map $(B)/etch
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libetch-unwind.so.0 -Wl,--version-script,lib/libetch-unwind.map \
		-Wl,-z,defs,-z,now,-z,nodelete -o $(B)/o/libetch-unwind.so.0 $(DROP_OBJ) -pthread -Wl,--no-as-needed -l:libgcc_s.so.1
	$(B)/etch rewrite -o $@.0 $(B)/o/libetch-unwind.so.0
	ln -sf libetch-unwind.so.0 $@

# Linked with libgcc_s, to which it hands over.
$(B)/libetch-exceptions.so: $(EXC_OBJ) lib/libetch-exceptions.map $(B)/etch
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libetch-exceptions.so.0 -Wl,--version-script,lib/libetch-exceptions.map \
		-Wl,-z,defs,-z,now,-z,nodelete -o $(B)/o/libetch-exceptions.so.0 $(EXC_OBJ) -pthread -Wl,--no-as-needed -l:libgcc_s.so.1
	$(B)/etch rewrite -o $@.0 $(B)/o/libetch-exceptions.so.0
	ln -sf libetch-exceptions.so.0 $@

$(B)/libetch-heap.so: $(HEAP_OBJ) lib/libetch-heap.map $(B)/etch
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libetch-heap.so -Wl,--version-script,lib/libetch-heap.map \
		-Wl,-z,defs,-z,now,-z,nodelete -o $(B)/o/libetch-heap.so $(HEAP_OBJ) -pthread
	$(B)/etch rewrite -o $@ $(B)/o/libetch-heap.so

# For programs that are linked with libgcc's archive, where one object defines these functions and what personality
# routines call: the linker's --wrap, which etch-exceptions.pc gives, leads calls here.
EXC_NAMES := _Unwind_RaiseException _Unwind_Resume _Unwind_Resume_or_Rethrow
$(B)/libetch-exceptions.a: $(EXC_OBJ)
	$(CC) -r -nostdlib -o $(B)/o/etch-exceptions.o $(EXC_OBJ)
	$(OBJCOPY) $(EXC_NAMES:%=--keep-global-symbol=%) $(B)/o/etch-exceptions.o
	$(OBJCOPY) $(foreach n,$(EXC_NAMES),--redefine-sym $(n)=__wrap_$(n)) $(B)/o/etch-exceptions.o
	rm -f $@ && $(AR) rcs $@ $(B)/o/etch-exceptions.o

# One object, whose own names nobody sees.
$(B)/libetch-unwind.a: $(DROP_ARC) lib/libetch-unwind.map
	sed -n 's/^\t\(.*\);/\1/p' lib/libetch-unwind.map | grep -v '[*]' >$(B)/o/unwind-names
	$(CC) -r -nostdlib -o $(B)/o/etch-unwind.o $(DROP_ARC)
	$(OBJCOPY) --keep-global-symbols=$(B)/o/unwind-names $(B)/o/etch-unwind.o
	rm -f $@ && $(AR) rcs $@ $(B)/o/etch-unwind.o

# The prefix is the one of `make install`; tell both the same.
$(B)/%.pc: lib/%.pc.in Makefile
	@mkdir -p $(@D)
	$(SUBST) $< >$@

$(B)/o/tool/%.o: tool/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -DETCH_VERSION='"$(VERSION)"' -fno-math-errno $(CFLAGS) $(WARN) $(TOOL_INC) -MMD -MP -c -o $@ $<

# pprof's format, as C that protobuf-c's compiler makes.
$(B)/gen/pprof.pb-c.c: tool/profile/pprof.proto
	@mkdir -p $(@D)
	protoc-c --proto_path=$(<D) --c_out=$(@D) $<
	@touch $@

$(B)/o/gen/pprof.pb-c.o: $(B)/gen/pprof.pb-c.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 $(CFLAGS) -I$(<D) -MMD -MP -c -o $@ $<

# The script of the flame graph, as a string of C.
$(B)/gen/flame_js.h: tool/profile/flame.js
	@mkdir -p $(@D)
	{ echo '#define FLAME_JS \'; sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n" \\/' $<; echo; } >$@.new
	mv $@.new $@

$(B)/o/tool/profile/write_svg.o: $(B)/gen/flame_js.h
$(B)/o/tool/profile/write_svg.o: TOOL_INC += -I$(B)/gen

$(B)/o/tool/profile/write_pprof.o: $(B)/gen/pprof.pb-c.c
$(B)/o/tool/profile/write_pprof.o: TOOL_INC += -I$(B)/gen

# Static programs link it, and it runs seldom: small, but for what is done for each of thousands of sites across words.
LIB_FAST := page_swap plan_wide
LIB_COLD := $(filter-out $(LIB_FAST),$(notdir $(basename $(wildcard lib/patch/*.c))))
# Once a walk or less, and then mostly from memory: in as few lines of cache as can be.
LIB_ONCE := unwind/walk unwind/lookup unwind/register_tables unwind/cursor_registers
$(LIB_COLD:%=$(B)/o/lib/patch/%.o) $(LIB_ONCE:%=$(B)/o/lib/%.o): LIB_CC += $(if $(filter -O2,$(CFLAGS)),-Os)

$(B)/o/lib/interfaces/verbose.o: LIB_CC += -DETCH_VERSION='"$(VERSION)"'

# Registers are stored one by one before they are copied: a copy by larger registers would wait for each of those stores.
$(B)/o/lib/exceptions/raise.o: LIB_CC += -mgeneral-regs-only

$(B)/o/lib/%.o: lib/%.c
	@mkdir -p $(@D)
	$(LIB_CC) -MMD -MP -c -o $@ $<

$(B)/o/bare/%.o: LIB_CC += $(if $(filter -O2,$(CFLAGS)),-Os) -fno-asynchronous-unwind-tables
$(B)/o/bare/%.o: lib/patch/%.c
	@mkdir -p $(@D)
	$(LIB_CC) -MMD -MP -c -o $@ $<

# The library's own ops table goes the way of a program's: libetch.a holds what the object
# step makes of it, libetch.so what the link step does.
$(B)/o/lib/faults/copy.o: lib/faults/copy.c $(B)/etch
	@mkdir -p $(@D)
	$(LIB_CC) -MMD -MP -MF $(@:.o=.d) -MT $@ -c -o $@.compiled $<
	$(B)/etch rewrite --only pv,ex -o $@ $@.compiled

$(B)/o/lib/%.o: lib/%.S
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LIB_INC) -MMD -MP -c -o $@ $<

# The fuzz targets (tests/fuzz): in one program for libFuzzer, in one that runs files through them.
# `etch profile` is left out there: it needs libetch's walk, of which a target has its own, with a memory that it makes
# up. The program with structural mutants has all commands, and those targets that are of whole files.
STRUCTURE_OBJ := $(patsubst %.c,$(B)/o/%.o,$(sort $(wildcard tests/fuzz/structure*.c)))
FUZZ_OBJ := $(patsubst %.c,$(B)/o/%.o,$(sort $(filter-out %/target_profile.c %/target_objtool.c,$(wildcard tests/fuzz/target*.c)))) \
	$(filter-out $(B)/o/tool/main.o $(B)/o/tool/cmd_profile.o $(B)/o/tool/profile/% $(B)/o/tool/cmd_heap.o $(B)/o/tool/heap/%,$(TOOL_OBJ)) \
	$(addprefix $(B)/o/lib/patch/,all_forms.o encoders.o native_check.o table_check.o) $(B)/o/lib/unwind/prepare.o $(B)/o/lib/unwind/prepare_map.o $(B)/o/lib/unwind/other_process.o $(B)/o/lib/faults/chain.o
MUTANT_OBJ := $(patsubst %,$(B)/o/tests/fuzz/%.o,mutants target_common target_diff target_elf target_inspect target_objtool \
	target_profile target_whole) $(filter-out $(B)/o/tool/main.o,$(TOOL_OBJ)) $(WALK_OBJ)
FUZZ_FLAGS := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined \
	-fno-sanitize=pointer-overflow

$(B)/o/tests/fuzz/%.o: tests/fuzz/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE $(CFLAGS) $(WARN) $(TOOL_INC) $(LIB_INC) -MMD -MP -c -o $@ $<

$(B)/replay: $(B)/o/tests/fuzz/replay.o $(FUZZ_OBJ) | $(B)/tool-libs
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(TOOL_LIBS)

$(B)/mutants: $(STRUCTURE_OBJ) $(MUTANT_OBJ) | $(B)/tool-libs
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(TOOL_LIBS)

$(B)/fuzzer: $(B)/o/tests/fuzz/fuzzer.o $(STRUCTURE_OBJ) $(FUZZ_OBJ) | $(B)/tool-libs
	$(CC) $(CFLAGS) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(TOOL_LIBS)

-include $(TOOL_OBJ:.o=.d) $(LIB_OBJ:.o=.d) $(ARC_OBJ:.o=.d) $(DROP_OBJ:.o=.d) $(HEAP_OBJ:.o=.d) $(EXC_OBJ:.o=.d) $(wildcard $(B)/o/tests/fuzz/*.d)

# ---- what people run --------------------------------------------------------

# Commands of a build are shown with V=1, and where make only says what it would do.
ifeq ($(V)$(findstring n,$(firstword -$(MAKEFLAGS))),)
.SILENT:
endif
ifeq ($(MAKELEVEL)$(filter-out all,$(MAKECMDGOALS))$(findstring q,$(firstword -$(MAKEFLAGS)))$(findstring s,$(firstword -$(MAKEFLAGS))),0)
$(info building etch (V=1 shows the commands) ...)
endif

# Targets that need more than a compiler run make again, once deps has brought it. Commands of that build are shown
# with V=1; warnings and errors always are.
QUIET    := --no-print-directory -j$(JOBS) $(if $(V),,-s)
ASAN      = B=build-asan CFLAGS='$(SANITIZE)' all build-asan/replay build-asan/mutants

built: deps
	@$(MAKE) -q all >/dev/null 2>&1 || echo 'building etch (V=1 shows the commands) ...'
	@$(MAKE) $(QUIET) all

asan:	## a second build with ASan and UBSan, in build-asan
	@$(MAKE) --no-print-directory $(ASAN)

test: built	## the tests; a subset with T=tests/check or T='tests -k name'
	@$(MAKE) -q $(ASAN) >/dev/null 2>&1 || echo 'building etch with ASan and UBSan ...'
	@$(MAKE) $(QUIET) $(ASAN)
	$(PYTHON) -m pytest -n $(JOBS) --dist worksteal $(PYTEST_ARGS) $(T)

test-all: deps	## ... and what make test leaves out: most cases of the grids, what takes long, more mutants
	@ETCH_TESTS=all ETCH_MUTANTS=2000 $(MAKE) --no-print-directory test

demo: built	## SQLite, etched: fetch, mark, build, rewrite, run, change it live
	@B=$(B) $(PYTHON) scripts/demo/demo.py

bench: built	## the benchmarks as tables; a part with PARTS=cycles (see scripts/bench/run --help)
	B=$(B) $(PYTHON) scripts/bench/run $(PARTS)

# Releases of clang-format disagree on details: this one decides.
CLANG_FORMAT := clang-format-14

format:	## the C sources as .clang-format says
	find tool lib -name '*.[ch]' | xargs $(CLANG_FORMAT) -i

soak: built	## the stress tests for long: SOAK_MINUTES (20)
	B=$(B) scripts/soak.sh $(SOAK_MINUTES)

fuzz: deps	## libFuzzer's targets; mutants of files, their structure and unwind tables: FUZZ_MINUTES (60) each
	@$(MAKE) $(QUIET) B=build-fuzz CC=clang WARN= CFLAGS='$(FUZZ_FLAGS)' build-fuzz/etch build-fuzz/fuzzer
	@$(MAKE) $(QUIET) asan
	status=0; $(PYTHON) scripts/fuzz.py targets --minutes $(FUZZ_MINUTES) build-fuzz || status=1; \
	$(PYTHON) scripts/fuzz.py structure --minutes $(FUZZ_MINUTES) build-asan || status=1; \
	$(PYTHON) scripts/fuzz.py files --minutes $(FUZZ_MINUTES) build-asan || status=1; \
	$(PYTHON) scripts/fuzz.py unwind --minutes $(FUZZ_MINUTES) build-asan || status=1; exit $$status

vm: built	## page swaps under other kernels: virtual machines with Debian's 6.1 and 6.12 (VM='--kernel IMAGE')
	$(PYTHON) scripts/vm/swaps.py --build $(B) $(VM)

kernel: built	## Linux 6.1 built by objtool and by etch objtool, booted, their stack walks compared (an hour, 5 GB)
	$(PYTHON) scripts/vm/kernel.py --etch $(B)/etch -j $(JOBS) $(KERNEL)

# The run is of one core; what is not installed is left out (run.py --install).
programs: built	## programs rewritten and not: the same output? some with PROGRAMS='python3 git'
	$(PYTHON) scripts/programs/run.py --etch $(B)/etch --root $(B)/programs $(PROGRAMS)

sample: built	## ... and their stacks sampled meanwhile: where do walks end?
	$(PYTHON) scripts/programs/sample.py --build $(B) --root $(B)/programs $(PROGRAMS)

unfamiliar: built	## files of toolchains that etch was not made with, used and single-stepped (UNFAMILIAR='--install poly')
	$(PYTHON) scripts/unfamiliar/run.py --etch $(B)/etch --directory $(B)/unfamiliar $(UNFAMILIAR)

no-cfi: built	## rows of stripped files whose .eh_frame has been taken away, beside it
	$(PYTHON) scripts/no_cfi.py --etch $(B)/etch

survey: built	## every ELF file of this machine rewritten, elsewhere, and looked at (hours); more with SURVEY=--install
	$(PYTHON) scripts/survey.py --etch $(B)/etch $(SURVEY)

compilers: all	## the code of every gcc and clang, rustc and go that is installed, under many options (hours): COMPILERS='--compilers gcc-16'
	$(PYTHON) scripts/compilers.py --build $(B) $(COMPILERS)

complexity: deps	## functions of a cyclomatic complexity above 20, by lizard: a report for reviewers, and no test
	@.venv/bin/python -m pip install -q lizard
	@.venv/bin/lizard -l c -C 20 -m -w tool lib || :

systems:	## make demo, test, deb in clean roots of Debian 12, 13 and unstable (root, debootstrap, hours): SYSTEMS='--suites trixie'
	scripts/systems.py $(SYSTEMS)

deps:	## install what is missing: Debian packages by apt, Python packages in .venv
	@scripts/deps.sh

install: all	## to PREFIX (/usr/local): tool, library, headers, pkg-config and CMake files, the crate, documentation, man pages, completions
	$(INSTALL) -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(LIBDIR)/cmake/etch \
		$(DESTDIR)$(PREFIX)/include/etch
	$(INSTALL) -m 755 $(B)/etch tool/etch-cc $(DESTDIR)$(PREFIX)/bin/
	$(INSTALL) -m 644 $(B)/libetch.a $(B)/libetch-unwind.a $(B)/libetch-exceptions.a $(DESTDIR)$(LIBDIR)/
	$(INSTALL) -m 755 $(B)/libetch.so.0 $(B)/libetch-unwind.so.0 $(B)/libetch-exceptions.so.0 $(DESTDIR)$(LIBDIR)/
	$(INSTALL) -D -m 755 $(B)/libetch-heap.so $(DESTDIR)$(LIBDIR)/etch/libetch-heap.so
	ln -sf libetch.so.0 $(DESTDIR)$(LIBDIR)/libetch.so
	ln -sf libetch-unwind.so.0 $(DESTDIR)$(LIBDIR)/libetch-unwind.so
	ln -sf libetch-exceptions.so.0 $(DESTDIR)$(LIBDIR)/libetch-exceptions.so
	$(SUBST) lib/etch.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/etch.pc
	$(SUBST) lib/etch-unwind.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/etch-unwind.pc
	$(SUBST) lib/etch-exceptions.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/etch-exceptions.pc
	for file in etch-config.cmake etch-config-version.cmake; do \
		$(SUBST) lib/$$file.in >$(DESTDIR)$(LIBDIR)/cmake/etch/$$file || exit 1; \
	done
	$(INSTALL) -D -m 644 tool/completion/etch.bash $(DESTDIR)$(DATADIR)/bash-completion/completions/etch
	$(INSTALL) -D -m 644 tool/completion/_etch $(DESTDIR)$(DATADIR)/zsh/site-functions/_etch
	$(INSTALL) -D -m 644 tool/completion/etch.fish $(DESTDIR)$(DATADIR)/fish/vendor_completions.d/etch.fish
	$(INSTALL) -m 644 lib/include/etch/*.h lib/include/etch/*.hpp $(DESTDIR)$(PREFIX)/include/etch/
	cd lib/rust && for file in Cargo.toml build.rs src/*.rs; do \
		$(INSTALL) -D -m 644 $$file $(abspath $(DESTDIR)$(DATADIR))/etch/rust/$$file || exit 1; \
	done
	for file in meson/meson.build bazel/WORKSPACE bazel/BUILD.bazel bazel/defs.bzl; do \
		$(INSTALL) -D -m 644 lib/$$file $(DESTDIR)$(DATADIR)/etch/$$file || exit 1; \
	done
	cd docs && set -- *.md *.svg tutorials/*.md guides/*.md guides/*.png schemas/*.json && for file; do \
		to=$(abspath $(DESTDIR)$(DATADIR))/doc/etch/$$file && $(INSTALL) -D -m 644 $$file $$to || exit 1; \
		case $$file in *.md) \
			awk -v page=$$file -v installed="$$*" -f installed_links.awk $$file >$$to || exit 1 ;; \
		esac; \
	done
	for page in docs/man/*.[1-8]; do \
		section=$${page##*.}; \
		$(INSTALL) -D -m 644 $$page $(DESTDIR)$(MANDIR)/man$$section/$${page##*/} || exit 1; \
	done

# All archives but Zydis's are Debian's; its decoder needs nothing of Zycore but headers. Two files know that it is static.
ZYDIS_SRC  := Decoder DecoderData Formatter FormatterATT FormatterBase FormatterBuffer FormatterIntel MetaInfo Mnemonic \
	Register SharedData String Utils
STATIC_WRAP := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
STATIC_OWN := tool/arch/x86/capstone.o tool/support/no_memory.o

$(B)/static/libZydis.a:
	@mkdir -p $(@D)/zydis
	zydis=$${ZYDIS:-$$(scripts/fetch.py zydis)}; [ "$$zydis" ] || exit 1; \
	for name in $(ZYDIS_SRC); do \
		$(CC) $(CFLAGS) -DNDEBUG -DZYDIS_STATIC_BUILD -DZYCORE_STATIC_BUILD -I$$zydis/include -I$$zydis/src \
			-c -o $(@D)/zydis/$$name.o $$zydis/src/$$name.c || exit 1; \
	done && echo '#include <Zydis/Zydis.h>' | $(CC) -E -dM - | grep -qx "$$(grep 'define ZYDIS_VERSION ' $$zydis/include/Zydis/Zydis.h | tr -s ' ')" || \
		{ echo 'static: the headers of libzydis-dev are of another version than the source' >&2; exit 1; }
	$(AR) rcs $@ $(@D)/zydis/*.o

$(B)/static/tool/%.o: tool/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -DETCH_STATIC $(CFLAGS) $(WARN) $(TOOL_INC) -c -o $@ $<

$(B)/static/etch: $(filter-out $(STATIC_OWN:%=$(B)/o/%),$(TOOL_OBJ)) $(STATIC_OWN:%=$(B)/static/%) $(WALK_OBJ) $(B)/static/libZydis.a
	libs=$$(tool/libs.sh --static "$(CC) $(CFLAGS) $(LDFLAGS) $(STATIC_WRAP)" $^) && \
	$(CC) $(CFLAGS) $(LDFLAGS) $(STATIC_WRAP) -static -s -o $@ $^ $$libs

static: $(B)/static/etch	## etch as one static file, build/static/etch: for images of CI, which need nothing else

deb:	## Debian packages of the tree, in build/deb
	@scripts/deb.sh $(B)

rpm:	## rpm packages of the tree, in build/rpm
	@scripts/rpm.sh $(B)

clean:	## remove what was built, and fetched sources; .venv stays
	rm -rf $(B) build-asan build-fuzz

help:	## this list
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## */\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

.PHONY: complexity systems compilers all built asan test test-all demo bench soak vm kernel format fuzz sample programs unfamiliar survey no-cfi deps install static deb rpm clean help
