# leanstore_am: the one door.  `make help` lists the verbs.
#
# This file is read in two roles:
#
#   - from the top of the tree, by you: engine, tests, verbs;
#   - from build/pg-<server>/, by itself (LS_PGXS is then set): the PGXS part,
#     which compiles and links one module for one server.  LS_PGXS names it:
#     leanstore_am (src/ and the engine), leanstore_accel (accel/) or leanstore_leap (leap/).
#
# Everything generated goes to build/, apart for each server and for each
# engine variant, so nothing has to be cleaned when PG_CONFIG changes.

# For servers without assertions: inlined across files by the linker, for the paths are long and their functions small (1.6 % less CPU of the
# server per transaction: pgbench, tpcb-like, 8 clients, six alternating runs).  The objects are code, too, for whoever links them without.
LTO = -flto=auto -ffat-lto-objects

ifndef LS_PGXS
# ---------------------------------------------------------------------------
# The door
# ---------------------------------------------------------------------------

.SUFFIXES:
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

LEANSTORE_CACHE ?= /var/cache/leanstore_am
cached_pg_config = $(wildcard $(LEANSTORE_CACHE)/pg18-$(1)/bin/pg_config)

# PG_CONFIG: the server to build for.  TEST_PG_CONFIG: the server that tests
# run on; with a PG_CONFIG of your own it is that one, otherwise the cached
# server with assertions.
ifeq ($(PG_CONFIG),)
PG_CONFIG := $(firstword $(call cached_pg_config,release) $(shell command -v pg_config))
TEST_PG_CONFIG ?= $(firstword $(call cached_pg_config,cassert) $(PG_CONFIG))
else
TEST_PG_CONFIG ?= $(PG_CONFIG)
endif

CCACHE := $(shell command -v ccache)
ifeq ($(origin CXX),default)
CXX := g++
endif

# --- Engine variants -------------------------------------------------------
# release and debug go into the extension (for servers without and with
# assertions), asan and tsan are for tests only, arm64 is compiled for another
# processor.  The engine never sees the server's include path.

ENGINE_VARIANTS = release debug asan tsan arm64

ENGINE_FLAGS = -std=c++20 -g -fPIC -fvisibility=hidden \
	-Wall -Wextra -Wno-missing-field-initializers \
	-Iengine -Iengine/include -MMD -MP $(ENGINE_CXXFLAGS)

# clang's objects of that kind are no code, and gcc, which links the modules, cannot read them.
release_FLAGS = -O2 -DNDEBUG $(if $(findstring clang,$(CXX)),,$(LTO))
debug_FLAGS   = -O1 -fno-omit-frame-pointer -DLS_DEBUG_CHECKS=1
# Of debug information the sanitizers need lines only; the rest is a third of the compiler's time.
asan_FLAGS    = -O1 -g1 -fno-omit-frame-pointer -DLS_DEBUG_CHECKS=1 \
	-fsanitize=address,undefined -fno-sanitize-recover=all
tsan_FLAGS    = -O2 -g1 -fno-omit-frame-pointer -DLS_DEBUG_CHECKS=1 \
	-fsanitize=thread -Wno-tsan
arm64_FLAGS   = $(debug_FLAGS) -isystem $(ARM64)/include -L$(ARM64)/lib/$(ARM64_TARGET)
ARM64         = $(LEANSTORE_CACHE)/arm64/usr
ARM64_TARGET  = aarch64-linux-gnu
arm64_CXX     = $(ARM64_TARGET)-g++
# What takes the time of the tests is their compilation.  Undefined behaviour is looked for in the
# engine's own files.
asan_TEST_FLAGS = -Og -fno-sanitize=undefined
tsan_TEST_FLAGS = -Og

engine_sources := $(sort $(shell find engine -name '*.cpp' 2>/dev/null))
test_sources := $(sort $(shell find test/unit test/model test/sim -name '*_test.cpp' 2>/dev/null))

# $(call engine_variant,NAME)
define engine_variant
$(1)_compiler = $$(or $$($(1)_CXX),$$(CXX))
$(1)_engine_objects := $$(engine_sources:%.cpp=build/$(1)/%.o)
$(1)_test_objects := $$(test_sources:%.cpp=build/$(1)/%.o)

build/$(1)/%.o: %.cpp Makefile
	@mkdir -p $$(@D)
	$$(CCACHE) $$($(1)_compiler) $$(ENGINE_FLAGS) $$($(1)_FLAGS) $$(TEST_FLAGS) $$(PRECOMPILED) \
		-c $$< -o $$@

$$($(1)_test_objects): TEST_FLAGS = -Itest $$($(1)_TEST_FLAGS)

build/$(1)/libleanstore.a: $$($(1)_engine_objects) build/$(1)/engine.list
	@rm -f $$@
	$$(AR) rcs $$@ $$($(1)_engine_objects)

# The tests link the objects, not the archive: a file that only registers
# something must not be dropped.
build/$(1)/engine_tests: $$($(1)_engine_objects) $$($(1)_test_objects) build/$(1)/engine.list
	$$($(1)_compiler) $$($(1)_FLAGS) $$(filter %.o,$$^) -o $$@ -lgtest -lgtest_main -luring -llz4 \
		-lpthread

# Changes when a source file comes or goes, so that archives are made anew.
build/$(1)/engine.list: FORCE
	@mkdir -p $$(@D)
	@echo '$$(engine_sources) $$(test_sources)' | cmp -s - $$@ || \
		echo '$$(engine_sources) $$(test_sources)' > $$@

-include $$($(1)_engine_objects:.o=.d) $$($(1)_test_objects:.o=.d)
endef
$(foreach v,$(ENGINE_VARIANTS),$(eval $(call engine_variant,$(v))))

# For sanitizers the standard library's headers are precompiled: half of the compiler's time.  For
# ccache a header that was precompiled anew from the same text is the same.
# $(call precompiled,VARIANT,KIND of test/precompiled): its objects are compiled with it.
define precompiled
build/$(1)/$(2).hpp.gch: TEST_FLAGS = $$(if $$(filter test,$(2)),-Itest $$($(1)_TEST_FLAGS))
build/$(1)/$(2).hpp.gch: test/precompiled/$(2).hpp test/precompiled/engine.hpp Makefile
	@mkdir -p $$(@D)
	$$(CXX) $$(ENGINE_FLAGS) $$($(1)_FLAGS) $$(TEST_FLAGS) -x c++-header $$< -o $$@
	@cksum test/precompiled/*.hpp Makefile | cksum >$$@.sum

$$($(1)_$(2)_objects): PRECOMPILED = -include build/$(1)/$(2).hpp -Winvalid-pch -fpch-preprocess
$$($(1)_$(2)_objects): build/$(1)/$(2).hpp.gch
endef
$(foreach v,asan tsan,$(foreach k,engine test,$(eval $(call precompiled,$(v),$(k)))))

# --- Fuzzers: test/fuzz/README.md ------------------------------------------
# clang's, with the folders of the engine that take bytes apart.  Of undefined behaviour that is
# left out which the address sanitizer sees, too: it is half of the compiler's time.

FUZZ_CXX ?= clang++
fuzz_FLAGS = -O1 -g1 -fno-omit-frame-pointer -DLS_DEBUG_CHECKS=1 -fno-sanitize-recover=all \
	-fsanitize=address,undefined -fno-sanitize=null,object-size,vptr,function
fuzz_engine_objects := $(patsubst %.cpp,build/fuzz/%.o,$(filter-out engine/store/% engine/capi/%,\
	$(engine_sources)))
FUZZERS := $(patsubst test/fuzz/%_fuzz.cpp,%,$(sort $(wildcard test/fuzz/*_fuzz.cpp)))
fuzz_programs := $(FUZZERS:%=build/fuzz/%)

build/fuzz/engine.hpp.pch: test/precompiled/engine.hpp Makefile
	@mkdir -p $(@D)
	$(FUZZ_CXX) $(ENGINE_FLAGS) $(fuzz_FLAGS) -fsanitize=fuzzer-no-link -Xclang -fno-pch-timestamp \
		-x c++-header $< -o $@

build/fuzz/%.o: %.cpp Makefile build/fuzz/engine.hpp.pch
	@mkdir -p $(@D)
	$(CCACHE) $(FUZZ_CXX) $(ENGINE_FLAGS) $(fuzz_FLAGS) -fsanitize=fuzzer-no-link -Itest \
		-Xclang -fno-pch-timestamp -include-pch build/fuzz/engine.hpp.pch -c $< -o $@

build/fuzz/libleanstore.a: $(fuzz_engine_objects)
	@rm -f $@
	@$(AR) rcs $@ $^

$(fuzz_programs): build/fuzz/%: build/fuzz/test/fuzz/%_fuzz.o build/fuzz/test/fuzz/fuzz_main.o \
		build/fuzz/libleanstore.a
	$(FUZZ_CXX) $(fuzz_FLAGS) -fsanitize=fuzzer $^ -o $@ -luring -llz4 -lpthread

-include $(fuzz_engine_objects:.o=.d) $(FUZZERS:%=build/fuzz/test/fuzz/%_fuzz.d)

# Those of src/ run in a backend: test/fuzz/server.  The sanitizer is a library there, loaded first,
# and has functions of libFuzzer's names, too.
FUZZ_CC ?= clang
fuzz_server_sources := test/fuzz/server/ls_fuzz.c src/row/ls_row.c src/row/ls_row_padding.c \
	$(filter-out src/key/ls_key_sql.c,$(sort $(wildcard src/key/*.c)))
fuzz_server_objects := $(fuzz_server_sources:%.c=build/fuzz/server/%.o)
fuzz_server_flags = $(fuzz_FLAGS) -fno-sanitize=alignment -fno-strict-aliasing -fwrapv -fPIC \
	-fvisibility=hidden -Wall -Wno-ignored-attributes -Wno-missing-braces -MMD -MP \
	-I$(shell $(TEST_PG_CONFIG) --includedir-server) -Isrc -Iengine/include
fuzz_library = $(shell $(FUZZ_CC) -print-file-name=libclang_rt.$(1)-$(shell uname -m).$(2))
SERVER_FUZZERS := $(patsubst test/fuzz/server/%.sql,%,$(sort $(wildcard test/fuzz/server/*.sql)))
FUZZERS += $(SERVER_FUZZERS)

build/fuzz/server/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CCACHE) $(FUZZ_CC) $(fuzz_server_flags) -fsanitize=fuzzer-no-link -c $< -o $@

build/fuzz/server/ls_fuzz.so: $(fuzz_server_objects)
	$(FUZZ_CXX) $(fuzz_FLAGS) -shared -shared-libasan -Wl,-Bsymbolic $^ -o $@ \
		$(call fuzz_library,fuzzer_no_main,a)

$(SERVER_FUZZERS:%=build/fuzz/%): build/fuzz/server/ls_fuzz.so Makefile
	@printf '#!/bin/sh\nexec test/fuzz/server/launch %s %s %s "$$@"\n' $(@F) $(TEST_PG_CONFIG) \
		$(call fuzz_library,asan,so) >$@
	@chmod +x $@

-include $(fuzz_server_objects:.o=.d)

export CCACHE_SLOPPINESS = pch_defines,time_macros
export CCACHE_PCH_EXTSUM = true
# What was compiled in another clone of this tree is found, too.
export CCACHE_NOHASHDIR = true
export CCACHE_BASEDIR ?= $(CURDIR)

FORCE:

# --- The extension, for one server -----------------------------------------

# Directory, relative to the top, for the server of a given pg_config: its
# name for the cached servers, a checksum of its path for others.
pg_dir = build/pg-$(or $(patsubst pg18-%,%,$(notdir $(patsubst %/bin/pg_config,%,\
	$(filter $(LEANSTORE_CACHE)/pg18-%,$(1))))),$(firstword $(shell echo '$(1)' | cksum)))

has_asserts = $(shell grep -qs '^\#define USE_ASSERT_CHECKING 1' \
	"$$($(1) --includedir-server)/pg_config.h" && echo yes)
engine_for = $(if $(call has_asserts,$(1)),debug,release)

PG_DIR := $(if $(PG_CONFIG),$(call pg_dir,$(PG_CONFIG)))
ENGINE_VARIANT := $(if $(PG_CONFIG),$(call engine_for,$(PG_CONFIG)))

MODULES = leanstore_am leanstore_accel leanstore_leap

# CC is the server's compiler, unless the command line or the environment has another.  No bitcode
# is made for servers that have LLVM: it would need a clang of their version, and serves functions
# that expressions call, of which these modules have none that would gain.
module_cc = $(if $(filter default undefined,$(origin CC)),$(shell $(PG_CONFIG) --cc),$(CC))

# $(call pgxs,MODULE) VERB
pgxs = $(MAKE) --no-print-directory -C $(PG_DIR) -f $(CURDIR)/Makefile LS_PGXS=$(1) \
	PG_CONFIG=$(PG_CONFIG) LS_TOP=$(CURDIR) \
	ENGINE_LIB=$(CURDIR)/build/$(ENGINE_VARIANT)/libleanstore.a \
	LS_DEBUG=$(if $(filter debug,$(ENGINE_VARIANT)),1) \
	CC="$(CCACHE) $(module_cc)" with_llvm=no

.PHONY: all install uninstall clean help server
all: server build/$(ENGINE_VARIANT)/libleanstore.a
	@mkdir -p $(PG_DIR)/src $(PG_DIR)/accel $(PG_DIR)/leap \
		$(patsubst src/%/,$(PG_DIR)/src/%,$(wildcard src/*/))
	+@$(foreach module,$(MODULES),$(call pgxs,$(module)) all &&) true
	@$(MAKE) --no-print-directory -s stage PG_CONFIG=$(PG_CONFIG)

# Whether there is a server to build for, and of the right version.
server:
	@test -n "$(PG_CONFIG)" || { echo "No PostgreSQL 18 found: run .ci/setup, or set PG_CONFIG." >&2; exit 1; }
	@$(PG_CONFIG) --version | grep -q '^PostgreSQL 18' || \
		{ echo "$(PG_CONFIG) is $$($(PG_CONFIG) --version); PostgreSQL 18 is needed." >&2; exit 1; }

# An image of the installed files, for extension_control_path and
# dynamic_library_path: tests run from it with nothing installed.
.PHONY: stage
stage:
	@rm -rf $(PG_DIR)/stage
	@mkdir -p $(PG_DIR)/stage/lib $(PG_DIR)/stage/share/extension
	@cp $(MODULES:%=$(PG_DIR)/%.so) $(PG_DIR)/stage/lib/
	@cp *.control accel/*.control leap/*.control \
		$(wildcard sql/*--*.sql accel/*--*.sql leap/*--*.sql) \
		$(PG_DIR)/stage/share/extension/

install: all
	+@$(foreach module,$(MODULES),$(call pgxs,$(module)) install &&) true

uninstall: server
	+@$(foreach module,$(MODULES),$(call pgxs,$(module)) uninstall &&) true

clean:
	rm -rf build

# A package for Debian: packaging/README.md.
.PHONY: deb
deb:
	@packaging/build_deb

# --- Tests -----------------------------------------------------------------
# T=pattern picks tests, REPEAT=n repeats them.

T ?=
REPEAT ?= 1
export T REPEAT FUZZ_CXX

gtest_flags = --gtest_brief=$(or $(BRIEF),0) $(if $(T),--gtest_filter='*$(T)*') \
	$(if $(filter-out 1,$(REPEAT)),--gtest_repeat=$(REPEAT) --gtest_break_on_failure)

# The thread sanitizer of older compilers cannot live with much address-space
# randomization, so that run is done without it where the kernel permits.
no_aslr = $(shell setarch -R true 2>/dev/null && echo setarch -R)

run_asan = ASAN_OPTIONS=abort_on_error=0:detect_stack_use_after_return=1 \
	UBSAN_OPTIONS=print_stacktrace=1 .ci/run_shards build/asan/engine_tests $(gtest_flags)
run_tsan = TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 \
	$(if $(wildcard test/tsan.supp),suppressions=$(CURDIR)/test/tsan.supp)" \
	.ci/run_shards $(no_aslr) build/tsan/engine_tests $(gtest_flags)
run_release = build/release/engine_tests $(gtest_flags)
# The emulator has no io_uring, without which nothing is read ahead, and no huge pages, and dies in
# its own way of an abort().
ARM64_WITHOUT = ReadAhead*:*read_ahead*:HugePages*:*DeathTest*
run_arm64 = .ci/run_shards qemu-aarch64-static -L /usr/$(ARM64_TARGET) \
	-E LD_LIBRARY_PATH=$(ARM64)/lib/$(ARM64_TARGET) build/arm64/engine_tests \
	$(gtest_flags) --gtest_filter='*$(T)*-$(ARM64_WITHOUT)'

.PHONY: test test-build test-build-server test-engine test-asan test-tsan test-release test-arm64
.PHONY: test-regress test-isolation test-tap test-install
.PHONY: conformance bench run format lint stage-path

test:
	+@.ci/run_suites

# What the suites need, without running them.
test-build: build/asan/engine_tests build/tsan/engine_tests test-build-server
test-build-server:
	+@$(MAKE) --no-print-directory all PG_CONFIG=$(TEST_PG_CONFIG)

test-engine: test-asan test-tsan

test-asan: build/asan/engine_tests
	$(run_asan)
test-tsan: build/tsan/engine_tests
	$(run_tsan)
test-release: build/release/engine_tests
	$(run_release)
test-arm64: build/arm64/engine_tests
	$(run_arm64)
build/arm64/engine_tests $(engine_sources:%.cpp=build/arm64/%.o): | arm64-libraries
.PHONY: arm64-libraries
arm64-libraries:
	@.ci/arm64_libraries

# Each fuzzer for so many seconds; T: only those.
SECONDS = 60
chosen_fuzzers = $(if $(T),$(foreach f,$(FUZZERS),$(if $(findstring $(T),$(f)),$(f))),$(FUZZERS))
.PHONY: fuzz fuzz-build
fuzz: fuzz-build
	@test/fuzz/run $(SECONDS) $(chosen_fuzzers)
# A machine without clang's fuzzer runs none.
fuzz-build:
	+@! test/fuzz/has_fuzzer $(FUZZ_CXX) || \
		$(MAKE) --no-print-directory $(chosen_fuzzers:%=build/fuzz/%)

test-regress test-isolation test-tap: test-build-server
	@.ci/run_server $(@:test-%=%) $(TEST_PG_CONFIG) $(call pg_dir,$(TEST_PG_CONFIG))/stage

test-install: test-build-server
	@.ci/check_install $(TEST_PG_CONFIG)
	@packaging/check

# A test converts a trace; the scratch server has no sources to make the converter of.
test-tap: staged-value-log
.PHONY: staged-value-log
staged-value-log: test-build-server
	+@$(MAKE) --no-print-directory -s -C bench/values
	@cp build/bench/values/value_log $(call pg_dir,$(TEST_PG_CONFIG))/stage/

# PostgreSQL's own suites on heap and on leanstore; SUBSET=ci of them is part of `make test`.
conformance: test-build-server
	@test/conformance/run $(TEST_PG_CONFIG) $(call pg_dir,$(TEST_PG_CONFIG))/stage

# Its TAP suites with leanstore tables; SUITES=subscription, which takes two minutes.
.PHONY: conformance-tap
conformance-tap: test-build-server
	@test/conformance/tap $(TEST_PG_CONFIG) $(call pg_dir,$(TEST_PG_CONFIG))/stage

run: all
	@.ci/run_server psql $(PG_CONFIG) $(PG_DIR)/stage

# ARGS: workloads and options of bench/run; without any, pgbench.
ARGS ?=
bench: server
	@PG_CONFIG=$(PG_CONFIG) bench/run $(ARGS)

# Where `make stage` leaves the image, for scripts.
stage-path:
	@echo $(PG_DIR)/stage

format:
	@command -v clang-format >/dev/null || { echo "clang-format is not installed" >&2; exit 1; }
	find engine test -name '*.cpp' -o -name '*.hpp' | xargs clang-format -i

# SINCE: messages are looked at of the commits after the one that this branch has in common with it.
SINCE ?= $(shell git rev-parse --quiet --verify main 2>/dev/null)

lint:
	@.ci/check_layers.py
	@.ci/tidy.py
	@.ci/ratchet.py
	@$(if $(SINCE),.ci/ratchet.py --commits $(SINCE)..HEAD)
	@.ci/check_headers
	@bench/self_test

help:
	@echo 'make                    build for PG_CONFIG ($(or $(PG_CONFIG),none found))'
	@echo 'make install            install into that server; PG_CONFIG=path for another one'
	@echo 'make clean              remove build/'
	@echo 'make deb                a package for Debian, in build/deb; packaging/README.md'
	@echo 'make test               every suite, as CI runs it; ends with the counts'
	@echo 'make test-engine        engine tests under ASan+UBSan and under TSan'
	@echo 'make test-asan          ... only the first; also test-tsan, test-release, test-arm64'
	@echo 'make test-regress       SQL tests: sql/*.sql against expected/*.out'
	@echo 'make test-isolation     interleavings: test/isolation/specs/*.spec'
	@echo 'make test-tap           crash, restart, backup: test/tap/*.pl'
	@echo 'make test-install       what make install needs and puts where; packaging/'
	@echo 'make fuzz               each fuzzer of test/fuzz for a minute; T=name, SECONDS=n'
	@echo "make conformance        PostgreSQL's own suites on heap and on leanstore; test/conformance/README.md"
	@echo '       T=name           only tests whose name contains it'
	@echo '       REPEAT=n         the same again n times, stops at the first failure'
	@echo '       TEST_PG_CONFIG=  the server to test on ($(or $(TEST_PG_CONFIG),none found))'
	@echo 'make bench              heap and leanstore side by side; ARGS=, see bench/README.md'
	@echo 'make run                scratch server and psql; the server goes when you quit'
	@echo 'make lint               layer, tidy, ratchet and header checks, and of the benchmark tool'
	@echo '       SINCE=branch     ... and messages of the commits since then (main)'
	@echo 'make format             clang-format on engine and test'

else
# ---------------------------------------------------------------------------
# PGXS, in build/pg-<server>/
# ---------------------------------------------------------------------------

VPATH := $(LS_TOP)

MODULE_big = $(LS_PGXS)
ifeq ($(LS_PGXS),leanstore_am)
EXTENSION = leanstore_am
DATA = $(patsubst $(LS_TOP)/%,%,$(wildcard $(LS_TOP)/sql/leanstore_am--*.sql))
OBJS = $(patsubst $(LS_TOP)/%.c,%.o,$(wildcard $(LS_TOP)/src/*/*.c))
LS_LIBRARIES = -Wl,--exclude-libs,libleanstore.a $(ENGINE_LIB) -luring -llz4 -lstdc++ -lpthread
else
LS_FOLDER = $(LS_PGXS:leanstore_%=%)
EXTENSION = $(LS_FOLDER)/$(LS_PGXS)
DATA = $(patsubst $(LS_TOP)/%,%,$(wildcard $(LS_TOP)/$(LS_FOLDER)/$(LS_PGXS)--*.sql))
OBJS = $(patsubst $(LS_TOP)/%.c,%.o,$(wildcard $(LS_TOP)/$(LS_FOLDER)/*.c))
endif

# leap/ includes nothing of the other folders, and speaks libpq.
PG_CPPFLAGS = $(if $(filter leanstore_leap,$(LS_PGXS)),-I$(libpq_srcdir),\
	-I$(LS_TOP)/engine/include -I$(LS_TOP)/src) $(if $(LS_DEBUG),-DLS_DEBUG_CHECKS=1)
# Of the server's flags and headers, which are gcc's.
LS_QUIET_CLANG = -Wno-unknown-warning-option -Wno-ignored-attributes \
	-Wno-ignored-optimization-argument
# The engine's objects are gcc's.  With all files before it, it takes what a failed call leaves unset for used.
LS_LTO := $(if $(LS_DEBUG)$(findstring clang,$(CC)),,$(LTO))
PG_CFLAGS = $(LS_LTO) -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare \
	-Wno-missing-field-initializers -Werror=implicit-function-declaration \
	$(if $(findstring clang,$(CC)),$(LS_QUIET_CLANG),-Wno-clobbered) \
	-ffile-prefix-map=$(LS_TOP)/= -MMD -MP
SHLIB_LINK = $(LS_LIBRARIES) $(if $(filter leanstore_leap,$(LS_PGXS)),$(libpq)) \
	$(if $(LS_LTO),$(LS_LTO) -O2 -Wno-maybe-uninitialized)

PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

$(OBJS): $(LS_TOP)/Makefile
# PGXS does not know that the library has to be linked again: with another engine, or when a source
# file has come or gone.
$(shlib): $(ENGINE_LIB) $(LS_PGXS).list

$(LS_PGXS).list: FORCE
	@echo '$(OBJS)' | cmp -s - $@ || echo '$(OBJS)' > $@

FORCE:

-include $(OBJS:.o=.d)
endif
