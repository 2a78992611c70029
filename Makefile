# SPDX-License-Identifier: MIT
# etch: build, test, demo, bench, install. `make help` lists the targets.

B        ?= build
CC       ?= cc
CFLAGS   ?= -O2 -g
PREFIX   ?= /usr/local
VERSION  := 0.1.0

WARN     := -Wall -Wextra -Werror -Wstrict-prototypes -Wmissing-prototypes
TOOL_INC := -Itool -Ilib/include
LIB_INC  := -Ilib -Ilib/include
TOOL_LIBS := -lelf -ldw -lZydis -lcapstone

TOOL_SRC := $(wildcard tool/*.c tool/*/*.c tool/arch/x86/*.c)
LIB_SRC  := $(wildcard lib/*.c)
TOOL_OBJ := $(TOOL_SRC:%.c=$(B)/o/%.o)
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/o/%.o)

all: $(B)/etch $(B)/libetch.a $(B)/libetch.so $(B)/etch.pc

$(B)/etch: $(TOOL_OBJ)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(TOOL_LIBS)

$(B)/libetch.a: $(LIB_OBJ)
	rm -f $@ && $(AR) rcs $@ $^

$(B)/libetch.so: $(LIB_OBJ) lib/libetch.map
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libetch.so.0 -Wl,--version-script,lib/libetch.map \
		-Wl,-z,defs -o $@.0 $(LIB_OBJ) -pthread
	ln -sf libetch.so.0 $@

$(B)/o/tool/%.o: tool/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -DETCH_VERSION='"$(VERSION)"' $(CFLAGS) $(WARN) $(TOOL_INC) -MMD -MP -c -o $@ $<

$(B)/o/lib/%.o: lib/%.c
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -D_GNU_SOURCE -DETCH_NO_MODULE $(CFLAGS) $(WARN) $(LIB_INC) -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<

-include $(TOOL_OBJ:.o=.d) $(LIB_OBJ:.o=.d)

clean:
	rm -rf $(B)

.PHONY: all clean
