# memtrace. `make` leaves build/memtrace, build/libmemtrace.so and build/libcudasim.so; `make help` lists the targets.
#   CC=clang  another compiler      SAN=address,undefined  sanitizers, in a build folder of their own      CI=1  warnings are errors

VERSION := 0.1.0
PREFIX  ?= /usr/local
comma   := ,
BUILD   := build$(if $(SAN),-$(subst $(comma),-,$(SAN)))$(if $(filter clang%,$(CC)),-clang)

# The CUDA headers: the toolkit's, otherwise those that tests/setup.sh downloaded from PyPI.
CUDA_DIRS := $(CUDA_HOME)/include /usr/local/cuda/include /usr/local/cuda-*/include /opt/cuda/include $(CONDA_PREFIX)/include \
             $(CONDA_PREFIX)/targets/x86_64-linux/include /usr/include $(HOME)/.cache/memtrace/cuda-headers/include
CUDA    ?= $(patsubst %/cuda.h,%,$(firstword $(wildcard $(CUDA_DIRS:=/cuda.h))))

WARN    := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wpointer-arith -Wformat=2 \
           $(if $(CI),-Werror)
CFLAGS  ?= $(if $(SAN),-O1,-O2) -g
ALLC    := -std=gnu17 -MMD -MP -Iinclude -DMEMTRACE_VERSION='"$(VERSION)"' $(WARN) $(CFLAGS) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
SHARED  := -fPIC -fvisibility=hidden -fno-semantic-interposition
LINK    := $(if $(SAN),-fsanitize=$(SAN))
# The path of a hook crosses files: with inlining across files an event takes 4 ns less. gcc only: clang needs lld for it.
LTO     := $(if $(filter clang%,$(CC))$(SAN),,-flto=auto)
LINKSO  := -shared -Wl,-z,relro,-z,now

# The newest C library that the results may need; tests/lint/lint.sh checks it. A sanitizer's runtime needs a newer one.
FLOOR         := 2.27
FLOOR_PRELOAD := 2.17
ifndef SAN
OLD_LIBC := -include memtrace/old_libc.h
OLD_LIBS := $(BUILD)/libc/libpthread.so.0 $(BUILD)/libc/libdl.so.2
OLD_MAIN := -Wl,--wrap=__libc_start_main -Wl,--wrap=stat
endif

PRELOAD_SRC  := $(wildcard preload/*.c preload/*/*.c)
SIM_ALL      := $(wildcard preload/sim/*/*.c)
SIM_SRC      := $(filter-out preload/sim/nvml/%,$(SIM_ALL))
ANALYZER_SRC := $(wildcard analyzer/*.c analyzer/*/*.c)

obj = $(patsubst %.c,$(BUILD)/%.o,$(1))
MESSAGES     := $(BUILD)/generated/export/perfetto.pb-c.o
# What is linked as an archive (-l:...), the command does not need where it runs.
LIBS         := -ljansson -lyaml -l:libz.a -l:libprotobuf-c.a -l:libncursesw.a -l:libtinfo.a -ldl -lm -lpthread
# With every library inside, for machines that have none of them.
LIBS_INSIDE  := -l:libjansson.a -l:libyaml.a -l:libz.a -l:libprotobuf-c.a -l:libncursesw.a -l:libtinfo.a -ldl -lm -lpthread
# Each test is a separate program, in the folder of build/ that mirrors its source; so are the programs that tests start.
tests = $(patsubst %.c,$(BUILD)/%,$(wildcard $(1)))
UNIT_TESTS    := $(call tests,tests/unit/*/test_*.c)
UNIT_TOOLS    := $(call tests,tests/unit/make_traces.c tests/unit/estimate/bench_estimate.c tests/unit/systems/memtrace_events.c \
                 tests/unit/backward/backward_names.c tests/unit/live/live_traces.c)
PRELOAD_TESTS := $(call tests,tests/preload/test_*.c)
SIM_TESTS     := $(call tests,tests/sim/test_*.c)
UNITS         := $(UNIT_TESTS) $(UNIT_TOOLS) $(PRELOAD_TESTS) $(SIM_TESTS) $(BUILD)/tests/unit/allocator/allocator_replay
# The analyzer without main(), and the files that unit tests share.
LIBRARY       := $(call obj,$(filter-out analyzer/main.c,$(ANALYZER_SRC))) $(BUILD)/analyzer/html/assets.o $(MESSAGES)
WRITERS       := $(call obj,tests/unit/fixture.c $(wildcard tests/unit/write_*.c))

# The modules that `memtrace simulate` puts on PYTHONPATH.
INJECTED := $(patsubst analyzer/simulate/python/%,$(BUILD)/cudasim/python/%,$(wildcard analyzer/simulate/python/*.py))

# The package that a job imports.
MODULE := $(patsubst preload/module/%,$(BUILD)/python/%,$(wildcard preload/module/memtrace/*.py))

.PHONY: all
all: $(BUILD)/memtrace $(BUILD)/libmemtrace.so $(BUILD)/libcudasim.so $(BUILD)/libcudasim-nvml.so $(BUILD)/cudasim/libcuda.so.1 $(INJECTED) $(MODULE)

# A preload must not carry a sanitizer into its host, and must not change with one: these two are always built plain.
# tests/lint/lint.sh checks the stack use of each function.
$(call obj,$(PRELOAD_SRC)): ALLC += $(SHARED) -Ipreload -I$(CUDA) $(LTO) $(OLD_LIBC) -fstack-usage
$(call obj,$(SIM_ALL)): ALLC += $(SHARED) -Ipreload/sim -I$(CUDA) $(OLD_LIBC)
$(call obj,$(ANALYZER_SRC)): ALLC += $(OLD_LIBC)
# Under `make coverage` the job's threads and the helper's count at once.
$(call obj,$(PRELOAD_SRC) $(SIM_ALL)): ALLC += $(if $(findstring --coverage,$(CFLAGS)),-fprofile-update=atomic)
$(call obj,$(ANALYZER_SRC) $(wildcard tests/unit/*.c tests/unit/*/*.c)): ALLC += -Ianalyzer
$(call obj,$(wildcard tests/unit/*/*.c)): ALLC += -Itests/unit
$(call obj,$(wildcard tests/preload/*.c)): ALLC += -Ipreload -I$(CUDA)
$(call obj,$(wildcard tests/sim/*.c)): ALLC += -Ipreload/sim -I$(CUDA)

$(BUILD)/%.o: %.c Makefile | cuda-headers
	@mkdir -p $(@D)
	$(CC) $(ALLC) -c $< -o $@

$(BUILD)/%.o: %.S Makefile
	@mkdir -p $(@D)
	$(CC) -MMD -MP -fPIC -g -Ipreload -c $< -o $@

# Perfetto's messages, made by protobuf-c.
$(BUILD)/generated/%.pb-c.c $(BUILD)/generated/%.pb-c.h &: analyzer/%.proto Makefile
	@mkdir -p $(@D)
	protoc-c --proto_path=analyzer --c_out=$(BUILD)/generated $<
$(BUILD)/generated/%.o: $(BUILD)/generated/%.c
	$(CC) $(filter-out -W%,$(ALLC)) $(OLD_LIBC) -I$(BUILD)/generated -c $< -o $@
$(call obj,analyzer/export/perfetto.c tests/unit/export/test_perfetto.c): ALLC += -I$(BUILD)/generated
$(call obj,analyzer/export/perfetto.c tests/unit/export/test_perfetto.c): | $(MESSAGES:.o=.h)

$(BUILD)/libc/%: libc/%.S libc/stub.h libc/stub.map
	@mkdir -p $(@D)
	$(CC) -shared -nostdlib -Wl,-soname,$(@F) -Wl,--version-script=libc/stub.map $< -o $@

$(BUILD)/libmemtrace.so: $(call obj,$(PRELOAD_SRC)) $(BUILD)/preload/hooks/dlsym.o $(BUILD)/preload/record/spawn_clone.o preload/hooks/dlsym.map
	rm -f $@.*.su
	$(CC) $(CFLAGS) $(LTO) -fstack-usage $(LINKSO) -Wl,-e,writer_start -Wl,-Bsymbolic -Wl,-z,defs -Wl,--version-script=preload/hooks/dlsym.map $(LINK) $(filter %.o,$^) -o $@

$(BUILD)/libcudasim.so: $(call obj,$(SIM_SRC)) $(OLD_LIBS)
	$(CC) $(LINKSO) -Wl,-soname,libcuda.so.1 $(LINK) $^ -o $@ -ldl -lpthread -lrt

$(BUILD)/libcudasim-nvml.so: $(call obj,preload/sim/nvml/nvml.c $(filter $(addprefix preload/sim/device/,gpu.c context.c settings.c),$(SIM_SRC))) $(OLD_LIBS)
	$(CC) $(LINKSO) -Wl,-soname,libnvidia-ml.so.1 $(LINK) $^ -o $@ -ldl -lpthread

# Under its SONAME, for programs that look for the driver as a file (Triton) or link with it.
$(BUILD)/cudasim/libcuda.so.1: $(BUILD)/libcudasim.so
	@mkdir -p $(@D)
	ln -sf ../libcudasim.so $@

$(BUILD)/cudasim/python/%: analyzer/simulate/python/%
	@mkdir -p $(@D)
	cp $< $@

$(BUILD)/python/%: preload/module/%
	@mkdir -p $(@D)
	cp $< $@

# What `memtrace html` puts into every page: our own files, and the libraries that tests/setup.sh fetched. A library that is not
# there is empty, and the command says so.
PAGE_LIBS  := echarts.min.js d3.min.js d3-flamegraph.min.js
PAGE_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/memtrace/page
PAGE_FILES := $(addprefix $(BUILD)/page/,page.css page.html page.js licences.html $(PAGE_LIBS))
# The modules as one script: a page that is opened from disk cannot import.
$(BUILD)/page/page.js: $(wildcard page/*.js)
	@mkdir -p $(@D)
	sed -e '/^import /d' -e 's/^export //' $(sort $^) >$@
	echo 'typeof document === "undefined" ? serve() : main();' >>$@

$(BUILD)/page/page.css $(BUILD)/page/page.html: $(BUILD)/page/%: page/%
	@mkdir -p $(@D)
	cp $< $@

# The Apache License is ours and that of two libraries.
$(BUILD)/page/licences.html: page/licences.html LICENSE
	@mkdir -p $(@D)
	{ cat $<; echo '<pre>'; sed -e 's/&/\&amp;/g' -e 's/</\&lt;/g' LICENSE; echo '</pre>'; } >$@

$(addprefix $(BUILD)/page/,$(PAGE_LIBS)): $(BUILD)/page/%: $(wildcard $(addprefix $(PAGE_CACHE)/,$(PAGE_LIBS)))
	@mkdir -p $(@D)
	if [ -e $(PAGE_CACHE)/$* ]; then cp $(PAGE_CACHE)/$* $@; else : >$@; fi

$(BUILD)/analyzer/html/assets.o: analyzer/html/assets.S $(PAGE_FILES)
	@mkdir -p $(@D)
	$(CC) -I$(BUILD)/page -Wa,-I$(BUILD)/page -c $< -o $@

$(BUILD)/memtrace $(BUILD)/inside/memtrace $(BUILD)/shared/memtrace: $(LIBRARY) $(BUILD)/analyzer/main.o $(OLD_LIBS)
	@mkdir -p $(@D)
	$(CC) $(LINK) $(OLD_MAIN) $^ -o $@ $(LIBS)
$(BUILD)/inside/memtrace: LIBS := $(LIBS_INSIDE)
# Every library shared, as a distribution wants it.
$(BUILD)/shared/memtrace: LIBS := -ljansson -lyaml -lz -lprotobuf-c -lncursesw -ltinfo -ldl -lm -lpthread

# For a build that does not run here: COMPLETION_OF, a command that does.
COMPLETION_OF ?= $(BUILD)/memtrace
SHELLS := bash zsh fish
$(SHELLS:%=$(BUILD)/completion/%): $(BUILD)/completion/%: $(COMPLETION_OF)
	@mkdir -p $(@D)
	$< completion $* >$@

# ---- tests ----
.SECONDEXPANSION:
# A test links the objects that it needs: all of them in each test are gigabytes of build/.
$(BUILD)/tests/unit/library.a: $(LIBRARY) $(WRITERS)
	@mkdir -p $(@D)
	rm -f $@
	$(AR) rcsT $@ $^
$(UNIT_TESTS) $(UNIT_TOOLS): %: %.o $(BUILD)/tests/unit/library.a
	$(CC) $(LINK) $^ -o $@ -lcmocka $(LIBS)

$(BUILD)/tests/unit/allocator/allocator_replay: %: %.o $(call obj,$(wildcard analyzer/allocator/*.c) analyzer/config/allocator_conf.c analyzer/util/util.c analyzer/util/err.c analyzer/util/buf.c)
	$(CC) $(LINK) $^ -o $@

# The recorder's unit tests run without the preload: they link everything except the exported hooks. A link with LTO compiles the whole recorder,
# so that one object has the result of that for all tests but those that include a source themselves (INSIDE_test_x).
INSIDE_test_tables := preload/record/tables.c
INSIDE_test_switch := preload/record/recorder.c
RECORDER      := $(call obj,$(PRELOAD_SRC)) $(BUILD)/preload/record/spawn_clone.o
RECORDER_ONCE := $(if $(LTO),$(BUILD)/tests/preload/recorder.o,$(RECORDER))
$(BUILD)/tests/preload/recorder.o: $(RECORDER)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LTO) -r -flinker-output=nolto-rel $^ -o $@

$(PRELOAD_TESTS): $(BUILD)/tests/preload/%: $(BUILD)/tests/preload/%.o $$(if $$(INSIDE_$$*),$$(RECORDER),$$(RECORDER_ONCE))
	$(CC) $(CFLAGS) $(LTO) $(LINK) $(filter-out $(call obj,$(INSIDE_$*)),$^) -o $@ -lcmocka -lpthread

$(SIM_TESTS): %: %.o $(BUILD)/cudasim/libcuda.so.1 $(BUILD)/libcudasim-nvml.so
	$(CC) $(LINK) $< -o $@ -lcmocka -lpthread $(BUILD)/libcudasim.so -Wl,-rpath,'$$ORIGIN/../../cudasim'

# What tests/bench/run.sh measures with.
BENCH := $(BUILD)/bench/hook_cost.so $(BUILD)/bench/calls $(BUILD)/bench/make_job $(BUILD)/bench/make_page_trace $(BUILD)/tests/unit/estimate/bench_estimate
$(BUILD)/bench/hook_cost.so: BENCH_FLAGS := -shared -fPIC
$(BUILD)/bench/make_job $(BUILD)/bench/make_page_trace: BENCH_FLAGS := -Iinclude -Itests/unit tests/unit/write_training.c tests/unit/write_trace.c
$(BUILD)/bench/hook_cost.so $(BUILD)/bench/calls $(BUILD)/bench/make_job $(BUILD)/bench/make_page_trace: $(BUILD)/bench/%: tests/bench/$$(basename $$*).c tests/unit/write_training.c tests/unit/write_trace.c
	@mkdir -p $(@D)
	$(CC) -std=gnu17 -O2 $< $(BENCH_FLAGS) -o $@ -ldl

# Every program that a test, a bench or another target starts is built here, so that none falls behind the code.
.PHONY: units bench-programs
units: all $(UNITS) bench-programs
bench-programs: $(BENCH)

.PHONY: test soak faults accuracy models population published test-all test-matrix test-gpu gpu-kit conformance bench demo tutorial picture setup fuzz check coverage lint format install dist clean help cuda-headers
setup:          ## install the packages for building and testing (Debian packages, CUDA headers)
	@tests/setup.sh build

cuda-headers:
	@test -n "$(CUDA)" || { echo "no CUDA headers: install the CUDA toolkit, run 'make setup' (fetches them from PyPI), or name the folder of cuda.h: make CUDA=DIR" >&2; exit 1; }

test:           ## every unit test and a fixed sample of real jobs; installs missing packages
	@tests/run.sh

test-all:       ## the same with every real job
	@tests/run.sh --all

test-matrix: all ## the same checks under every supported PyTorch and Python; downloads them
	@python3 tests/long/matrix.py

test-gpu:       ## everything against this machine's GPU, at most LIMIT=840 seconds; writes docs/gpu (GPU_OUT=DIR); builds what it can
	@python3 tests/gpu/run.py $(GPU_ARGS)

# For a machine without network, compiler or libraries: memtrace is linked with jansson and yaml inside.
KIT := $(BUILD)/gpu-kit
gpu-kit: all $(BUILD)/inside/memtrace $(BUILD)/bench/hook_cost.so ## build/gpu-kit.tar.gz, which runs test-gpu on another machine: python3 gpu-kit/tests/gpu/run.py
	@rm -rf $(KIT)
	@mkdir -p $(KIT)/build/bench $(KIT)/tests/bench $(KIT)/examples $(KIT)/preload/sim/device
	@cp -rP tests/gpu tests/jobs tests/mtr.py $(KIT)/tests/
	@cp tests/bench/hook_cost.py $(KIT)/tests/bench/
	@cp examples/train_gpt2.py $(KIT)/examples/
	@cp preload/sim/device/gpus.def preload/sim/device/settings.def $(KIT)/preload/sim/device/
	@cp -rP $(BUILD)/libmemtrace.so $(BUILD)/libcudasim.so $(BUILD)/libcudasim-nvml.so $(BUILD)/cudasim $(KIT)/build/
	@cp $(BUILD)/bench/hook_cost.so $(KIT)/build/bench/
	@cp $(BUILD)/inside/memtrace $(KIT)/build/
	@tar -C $(BUILD) --exclude __pycache__ -czf $(KIT).tar.gz gpu-kit
	@echo $(KIT).tar.gz

conformance: all ## PyTorch's and other projects' own tests of memory on the simulated device; downloads them, takes an hour; writes docs/conformance.md
	@python3 tests/long/conformance.py $(PARTS)

bench:          ## the cost of recording, beside that of other tools
	@tests/bench/run.sh

coverage:       ## the lines of preload and analyzer that the tests run; TESTS="cli oom": only these of the real jobs
	@tests/setup.sh
	@python3 tests/long/coverage.py $(TESTS)

soak: all       ## 10^9 events at the budget's limit, some minutes: cost, memory, contents of the trace
	@python3 tests/long/soak.py

faults: all     ## every call of the recorder made to fail; writes the table of docs/reliability.md
	@python3 tests/long/faults.py --write

models: all     ## every model type of transformers against PyTorch's counters; writes docs/models.md
	@python3 tests/accuracy/models.py --write

accuracy: all   ## our estimates and the documents' against PyTorch's counters; writes docs/accuracy.md
	@python3 tests/accuracy/accuracy.py --write

population: all  ## jobs with faults drawn at random (DRAWS=520, SEED=7), and what memtrace says of them; an hour; writes docs/population.md and the rules' confidence
	@rm -rf $(BUILD)/population && mkdir -p $(BUILD)/population
	@python=$$(tests/python-env.sh 2.15) && $$python tests/population/draw.py --draws $(or $(DRAWS),520) --seed $(or $(SEED),7) --keep $(BUILD)/population/traces \
		--results $(BUILD)/population/results && $$python tests/population/table.py $(BUILD)/population/results --write $(or $(SEED),7)

published: all  ## jobs whose memory others published, on the simulated device; writes docs/published.md; SOURCE=NAME: only this one
	@python3 tests/published/remake.py $(SOURCE)

tutorial: all   ## runs the commands of docs/tutorial.md and writes their outputs into it
	@python3 tests/tutorial.py --write

picture: all    ## docs/page.png, the README's picture, of the page's test
	@PICTURE=$(CURDIR)/docs/page.png python3 tests/run.py test_html_jobs.HtmlJobs.test_picture

demo:           ## record a real PyTorch job, and one that runs out of memory
	@examples/demo.sh

# Needs clang. FUZZ_TIME seconds for each reader; findings are in build-fuzz. READERS="hf own trace": only these.
FUZZ_TIME ?= 600
READERS   ?= $(notdir $(wildcard tests/unit/fuzz/corpus/*))
FUZZ_RUN   = -max_total_time=$(FUZZ_TIME) -timeout=20 -print_final_stats=1
fuzz:           ## hostile traces, records and configurations, ten minutes for each reader (libFuzzer; FUZZ_TIME=60 for a minute)
	@mkdir -p $(READERS:%=build-fuzz/%)
	@$(MAKE) -s BUILD=build-fuzz CC=clang SAN=fuzzer-no-link,address,undefined CFLAGS='-O1 -g -fno-sanitize-recover=undefined' fuzz-targets
	@for r in $(filter-out trace import record,$(READERS)); do \
		(cd build-fuzz && FUZZ_READER=$$r tests/unit/fuzz/fuzz_config $(FUZZ_RUN) -max_len=20000 -artifact_prefix=$$r- $$r ../tests/unit/fuzz/corpus/$$r) || exit 1; \
	done
	$(if $(filter import,$(READERS)),@cd build-fuzz && tests/unit/fuzz/fuzz_import $(FUZZ_RUN) -max_len=20000 -artifact_prefix=import- import ../tests/unit/fuzz/corpus/import)
	$(if $(filter record,$(READERS)),@cd build-fuzz && tests/unit/fuzz/fuzz_record $(FUZZ_RUN) -max_len=20000 -artifact_prefix=record- record ../tests/unit/fuzz/corpus/record)
	$(if $(filter trace,$(READERS)),@cd build-fuzz && tests/unit/fuzz/fuzz_trace $(FUZZ_RUN) -max_len=200000 -artifact_prefix=trace- trace ../tests/unit/fuzz/corpus/trace)

# `make test` builds these too, without sanitizers, so that they always compile.
.PHONY: fuzz-targets
FUZZ_TARGETS := $(call tests,tests/unit/fuzz/fuzz_*.c)
fuzz-targets: $(FUZZ_TARGETS)
$(FUZZ_TARGETS:=.o): ALLC += -DFUZZING_WITH_LIBFUZZER
$(FUZZ_TARGETS): %: %.o $(BUILD)/tests/unit/library.a
	$(CC) $(LINK) -fsanitize=fuzzer $^ -o $@ $(LIBS)

# gcc -fanalyzer compiles each object, then clang-tidy reads the source: changed files are checked again. See .clang-tidy and tests/lint/cppcheck.txt.
CHECKED := $(PRELOAD_SRC) $(SIM_ALL) $(ANALYZER_SRC)
check:          ## gcc -fanalyzer, clang-tidy and cppcheck over preload and analyzer, without a finding
	@tests/setup.sh check
	@$(MAKE) -s -k -j$$(nproc) BUILD=build-check LTO= CFLAGS='-O1 -g -fanalyzer -Werror' checked
	@echo "check: clean"

.PHONY: checked cppcheck
checked: $(CHECKED:%.c=$(BUILD)/%.tidy) cppcheck
$(BUILD)/%.tidy: $(BUILD)/%.o .clang-tidy
	@clang-tidy --quiet $*.c -- -std=gnu17 -I$(BUILD)/generated -Iinclude -Ianalyzer -Ipreload -Ipreload/sim -I$(CUDA) -DMEMTRACE_VERSION='"$(VERSION)"' 2>$@.log || { cat $@.log; exit 1; }
	@touch $@
cppcheck:
	@mkdir -p $(BUILD)/cppcheck
	@cppcheck -q --std=c11 --enable=warning,performance,portability --inline-suppr --suppressions-list=tests/lint/cppcheck.txt --error-exitcode=1 \
		--cppcheck-build-dir=$(BUILD)/cppcheck -Iinclude -Ianalyzer -Ipreload -Ipreload/sim -D__x86_64__ -DMEMTRACE_VERSION='"$(VERSION)"' \
		-D'ElfW(type)=Elf64_##type' -D'json_object_foreach(object, key, value)=while ((key = next(object, &value)))' \
		-D'HASH_ITER(hh, head, element, next)=while ((element = (head)))' \
		-D'EXPORT=' -D'__attribute__(x)=' -D'bug(file, line, what)=abort()' preload analyzer

lint: all       ## rules of CONTRIBUTING.md: forbidden calls of the preload, use between folders, names, sizes, format
	@tests/lint/lint.sh $(BUILD) $(FLOOR) $(FLOOR_PRELOAD)

format:         ## clang-format over every C file (see .clang-format)
	@git ls-files -co --exclude-standard 'analyzer/*.[ch]' 'preload/*.[ch]' 'include/*.[ch]' 'libc/*.[ch]' 'tests/*.[ch]' | xargs $(or $(shell command -v clang-format-14),clang-format) -i

# libmemtrace.so is a program too, which writes the traces. PYTHONDIR: where that PREFIX's Python looks for modules.
PYTHONDIR ?= $(or $(shell python3 -c 'import site, sys; print(next((d for d in site.getsitepackages() if d.startswith(sys.argv[1] + "/lib/")), ""))' $(PREFIX)),$(PREFIX)/lib/python3/dist-packages)
INSTALLED ?= $(BUILD)/memtrace
INTO       = $(DESTDIR)$(PREFIX)
install: all $(INSTALLED) $(SHELLS:%=$(BUILD)/completion/%) ## command, libraries, Python module, man pages and completion, to PREFIX (/usr/local); DESTDIR is put before
	install -d $(addprefix $(INTO)/,bin lib/memtrace/cudasim/python share/man/man1 share/man/man5 share/man/man7 share/bash-completion/completions \
		share/zsh/site-functions share/fish/vendor_completions.d)
	install -m 755 $(INSTALLED) $(INTO)/bin/
	install -m 755 $(BUILD)/libmemtrace.so $(INTO)/lib/memtrace/
	install -m 644 $(BUILD)/libcudasim.so $(BUILD)/libcudasim-nvml.so $(INTO)/lib/memtrace/
	ln -sf ../libcudasim.so $(INTO)/lib/memtrace/cudasim/libcuda.so.1
	install -m 644 analyzer/simulate/python/*.py $(INTO)/lib/memtrace/cudasim/python/
	install -m 644 docs/man/*.1 $(INTO)/share/man/man1/
	install -m 644 docs/man/*.5 $(INTO)/share/man/man5/
	install -m 644 docs/man/*.7 $(INTO)/share/man/man7/
	install -m 644 $(BUILD)/completion/bash $(INTO)/share/bash-completion/completions/memtrace
	install -m 644 $(BUILD)/completion/zsh $(INTO)/share/zsh/site-functions/_memtrace
	install -m 644 $(BUILD)/completion/fish $(INTO)/share/fish/vendor_completions.d/memtrace.fish
	$(if $(wildcard preload/module/memtrace/*.py),install -d $(DESTDIR)$(PYTHONDIR)/memtrace)
	$(if $(wildcard preload/module/memtrace/*.py),install -m 644 preload/module/memtrace/*.py $(DESTDIR)$(PYTHONDIR)/memtrace/)

dist:           ## build/dist: a .deb, a wheel, and with aarch64-linux-gnu-gcc a wheel for aarch64; PARTS="deb wheel": only these
	@packaging/dist.sh $(VERSION) $(PARTS)

clean:          ## remove the build folders
	rm -rf build build-*

help:           ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
