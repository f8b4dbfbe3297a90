# memtrace. `make` leaves build/memtrace, build/libmemtrace.so and build/libcudasim.so; `make help` lists the targets.
#   CC=clang  another compiler      SAN=address,undefined  sanitizers, in a build folder of their own      CI=1  warnings are errors

VERSION := 0.1.0
PREFIX  ?= /usr/local
comma   := ,
BUILD   := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(filter clang%,$(CC)),-clang)

# The CUDA headers: the toolkit's, else those that tests/setup.sh fetched from PyPI.
CUDA    ?= $(firstword $(wildcard $(CUDA_HOME)/include /usr/local/cuda/include $(HOME)/.cache/memtrace/cuda-headers/include))

WARN    := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wpointer-arith -Wformat=2 \
           $(if $(CI),-Werror)
CFLAGS  ?= -O2 -g
ALLC    := -std=gnu17 -MMD -MP -Iinclude -DMEMTRACE_VERSION='"$(VERSION)"' $(WARN) $(CFLAGS) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
SHARED  := -fPIC -fvisibility=hidden -fno-semantic-interposition
LINK    := $(if $(SAN),-fsanitize=$(SAN))
# The hook's path crosses files: inlined across them it is 4 ns shorter. gcc only: clang's needs lld.
LTO     := $(if $(filter clang%,$(CC))$(SAN),,-flto=auto)
LINKSO  := -shared -Wl,-z,relro,-z,now

PRELOAD_SRC  := $(wildcard preload/*.c)
SIM_SRC      := $(filter-out preload/sim/nvml.c,$(wildcard preload/sim/*.c))
ANALYZER_SRC := $(wildcard analyzer/*.c analyzer/*/*.c analyzer/*/*/*.c)
UNIT_SRC     := $(wildcard tests/unit/test_*.c)

obj = $(patsubst %.c,$(BUILD)/%.o,$(1))
UNITS := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(UNIT_SRC)) $(patsubst tests/preload/%.c,$(BUILD)/tests/preload_%,$(wildcard tests/preload/test_*.c)) \
         $(patsubst tests/sim/%.c,$(BUILD)/tests/sim_%,$(wildcard tests/sim/test_*.c)) \
         $(patsubst tests/model/%.c,$(BUILD)/tests/model_%,$(wildcard tests/model/test_*.c))

# What `memtrace simulate` puts on PYTHONPATH.
INJECTED := $(patsubst analyzer/sim/python/%,$(BUILD)/cudasim/python/%,$(wildcard analyzer/sim/python/*.py))

.PHONY: all
all: $(BUILD)/memtrace $(BUILD)/libmemtrace.so $(BUILD)/libcudasim.so $(BUILD)/libcudasim-nvml.so $(BUILD)/cudasim/libcuda.so.1 $(INJECTED)

# A preload must not carry a sanitizer into its host, and must not change with one: these two are always built plain.
$(call obj,$(PRELOAD_SRC)): ALLC += $(SHARED) -I$(CUDA) $(LTO)
$(call obj,$(wildcard preload/sim/*.c)): ALLC += $(SHARED) -I$(CUDA)
$(call obj,$(ANALYZER_SRC) $(wildcard tests/unit/*.c tests/model/*.c)): ALLC += -Ianalyzer
$(call obj,$(wildcard tests/preload/*.c)): ALLC += -Ipreload -I$(CUDA)
$(call obj,$(wildcard tests/sim/*.c)): ALLC += -Ipreload/sim -I$(CUDA)

$(BUILD)/%.o: %.c Makefile | cuda-headers
	@mkdir -p $(@D)
	$(CC) $(ALLC) -c $< -o $@

$(BUILD)/%.o: %.S Makefile
	@mkdir -p $(@D)
	$(CC) -MMD -MP -fPIC -g -c $< -o $@

$(BUILD)/libmemtrace.so: $(call obj,$(PRELOAD_SRC)) $(BUILD)/preload/dlsym.o preload/dlsym.map
	$(CC) $(CFLAGS) $(LTO) $(LINKSO) -Wl,-Bsymbolic -Wl,-z,defs -Wl,--version-script=preload/dlsym.map $(LINK) $(filter %.o,$^) -o $@ -lpthread

$(BUILD)/libcudasim.so: $(call obj,$(SIM_SRC))
	$(CC) $(LINKSO) -Wl,-soname,libcuda.so.1 $(LINK) $^ -o $@ -ldl -lpthread -lrt

$(BUILD)/libcudasim-nvml.so: $(call obj,preload/sim/nvml.c $(filter preload/sim/gpu.c preload/sim/settings.c,$(SIM_SRC)))
	$(CC) $(LINKSO) -Wl,-soname,libnvidia-ml.so.1 $(LINK) $^ -o $@ -ldl -lpthread

# Under its SONAME, for those who look for the driver as a file (Triton) or link with it.
$(BUILD)/cudasim/libcuda.so.1: $(BUILD)/libcudasim.so
	@mkdir -p $(@D)
	ln -sf ../libcudasim.so $@

$(BUILD)/cudasim/python/%: analyzer/sim/python/%
	@mkdir -p $(@D)
	cp $< $@

$(BUILD)/memtrace: $(call obj,$(ANALYZER_SRC))
	$(CC) $(LINK) $^ -o $@ -ljansson -lyaml -lm -lpthread

# ---- tests ----
$(BUILD)/tests/test_%: $(call obj,$(filter-out analyzer/main.c,$(ANALYZER_SRC))) $(BUILD)/tests/unit/test_%.o $(call obj,$(wildcard tests/unit/write_*.c))
	@mkdir -p $(@D)
	$(CC) $(LINK) $^ -o $@ -lcmocka -ljansson -lyaml -lm -lpthread

$(BUILD)/tests/model_%: $(call obj,$(filter-out analyzer/main.c,$(ANALYZER_SRC))) $(BUILD)/tests/model/%.o
	@mkdir -p $(@D)
	$(CC) $(LINK) $^ -o $@ -lcmocka -ljansson -lyaml -lm -lpthread

$(BUILD)/tests/allocator_replay: $(call obj,$(wildcard analyzer/model/allocator*.c) analyzer/util.c analyzer/err.c) $(BUILD)/tests/model/allocator_replay.o
	@mkdir -p $(@D)
	$(CC) $(LINK) $^ -o $@

# The recorder's side runs without the preload: everything but the exported hooks. INSIDE_test_x: what that test includes to look into it.
INSIDE_test_tables := preload/tables.c
$(BUILD)/tests/preload_%: $(BUILD)/tests/preload/%.o $(call obj,$(PRELOAD_SRC))
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LTO) $(LINK) $(filter-out $(call obj,$(INSIDE_$*)),$^) -o $@ -lcmocka -lpthread

$(BUILD)/tests/sim_%: $(BUILD)/tests/sim/%.o $(BUILD)/cudasim/libcuda.so.1 $(BUILD)/libcudasim-nvml.so
	@mkdir -p $(@D)
	$(CC) $(LINK) $< -o $@ -lcmocka -lpthread $(BUILD)/libcudasim.so -Wl,-rpath,'$$ORIGIN/../cudasim'

.PHONY: units
units: all $(UNITS)

.PHONY: test accuracy test-all test-matrix test-gpu bench demo setup fuzz lint install clean help cuda-headers
setup:          ## install what building and testing need (Debian packages, CUDA headers)
	@tests/setup.sh build

cuda-headers:
	@test -n "$(CUDA)" || { echo "no CUDA headers: install the CUDA toolkit, or run 'make setup' (fetches them from PyPI)" >&2; exit 1; }

test:           ## every unit test and a fixed sample of real jobs; installs what it needs
	@tests/run.sh

test-all:       ## the same with every real job
	@tests/run.sh --all

test-matrix: all ## the same checks under every supported PyTorch and Python; fetches them all
	@python3 tests/matrix.py

test-gpu: all   ## the truth on a real GPU; without one it says that it was skipped
	@python3 tests/gpu.py

bench:          ## what tracing costs, against what one would use instead
	@tests/bench/run.sh

accuracy: all   ## our estimates and the documents' against what PyTorch counted; makes docs/accuracy.md
	@python3 tests/accuracy.py --write

demo:           ## trace a real PyTorch job, and a death by out-of-memory
	@examples/demo.sh

# Needs clang. FUZZ_TIME seconds a target; what is found is left in build-fuzz. READERS="hf own": these alone.
FUZZ_TIME ?= 600
READERS   ?= $(notdir $(wildcard tests/unit/corpus/*))
FUZZ       = clang -std=gnu17 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -DFUZZING_WITH_LIBFUZZER \
             -DMEMTRACE_VERSION='"$(VERSION)"' -Iinclude -Ianalyzer -Itests/unit
FUZZ_RUN   = -max_total_time=$(FUZZ_TIME) -timeout=20 -max_len=20000 -print_final_stats=1
fuzz:           ## hostile traces and configurations, ten minutes a reader (libFuzzer; FUZZ_TIME=60 for a minute)
	@mkdir -p build-fuzz/trace $(READERS:%=build-fuzz/%)
	$(FUZZ) tests/unit/fuzz_trace.c tests/unit/write_trace.c $(filter-out analyzer/main.c,$(ANALYZER_SRC)) -ljansson -lyaml -lm -lpthread -o build-fuzz/fuzz_trace
	$(FUZZ) tests/unit/fuzz_config.c $(filter-out analyzer/main.c,$(ANALYZER_SRC)) -ljansson -lyaml -lm -lpthread -o build-fuzz/fuzz_config
	@for r in $(READERS); do \
		(cd build-fuzz && FUZZ_READER=$$r ./fuzz_config $(FUZZ_RUN) -artifact_prefix=$$r- $$r ../tests/unit/corpus/$$r) || exit 1; \
	done
	@cd build-fuzz && ./fuzz_trace $(FUZZ_RUN) -max_len=200000 trace

lint: all       ## house rules: what the preload may not call, sizes of files and functions
	@tests/lint.sh $(BUILD)

install: all    ## to PREFIX (/usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/memtrace $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 755 $(BUILD)/memtrace $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(BUILD)/libmemtrace.so $(BUILD)/libcudasim.so $(BUILD)/libcudasim-nvml.so $(DESTDIR)$(PREFIX)/lib/memtrace/
	install -d $(DESTDIR)$(PREFIX)/lib/memtrace/cudasim
	ln -sf ../libcudasim.so $(DESTDIR)$(PREFIX)/lib/memtrace/cudasim/libcuda.so.1
	install -d $(DESTDIR)$(PREFIX)/lib/memtrace/cudasim/python
	install -m 644 analyzer/sim/python/*.py $(DESTDIR)$(PREFIX)/lib/memtrace/cudasim/python/
	install -m 644 docs/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -d $(DESTDIR)$(PREFIX)/share/man/man5
	install -m 644 docs/man/*.5 $(DESTDIR)$(PREFIX)/share/man/man5/

clean:          ## remove what was built
	rm -rf build build-*

help:           ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
