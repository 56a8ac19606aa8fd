# The front door: each target installs what it needs, builds, and runs.
PRESET ?= dev
SEEDS ?= 300
SEED ?= 1
EXAMPLES := ON
BENCH := ON

# Tests wait more than they compute.
JOBS ?= $(shell echo $$((2 * $$(nproc))))

# ccache when it is there; nothing changes when it is not. Expanded where it is used: a leg has a preset of its own.
CCACHE := $(shell command -v ccache 2>/dev/null)
CONFIGURE = cmake --preset $(PRESET) $(if $(CCACHE),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

.PHONY: help demo demo-relay test build bench sim asan tsan coverage lint doxygen install deb test-packages format clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

demo:  ## an order service on SQLite that is killed in the middle, and recovers
	@tools/install-packages build
	@$(CONFIGURE) -DOUTBOX_TESTS=OFF -DOUTBOX_BENCH=OFF --log-level=WARNING >/dev/null
	@cmake --build --preset $(PRESET) --target example_demo
	@build/$(PRESET)/examples/example_demo

demo-relay:  ## orders from PostgreSQL to Kafka through the relay, which is killed in the middle
	@tools/install-packages test
	@$(CONFIGURE) -DOUTBOX_TESTS=ON -DOUTBOX_EXAMPLES=ON --log-level=WARNING >/dev/null
	@cmake --build --preset $(PRESET) --target outbox_tool outbox_kafka_mock demo_relay_service
	@tools/demo-relay build/$(PRESET)

build:  ## build everything
	@tools/install-packages test
	@$(CONFIGURE) -DOUTBOX_TESTS=ON -DOUTBOX_EXAMPLES=$(EXAMPLES) -DOUTBOX_BENCH=$(BENCH) --log-level=WARNING >/dev/null
	@cmake --build --preset $(PRESET)

test: build  ## build and run every test
	@ctest --preset $(PRESET) -j$(JOBS)

bench:  ## ours beside the same work by hand: a table, build/bench/report.json and pictures (ONLY=sqlite.write for some)
	@tools/install-packages test
	@cmake --preset release $(if $(CCACHE),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache) -DOUTBOX_BENCH=ON -DOUTBOX_TESTS=OFF --log-level=WARNING >/dev/null
	@cmake --build --preset release --target outbox_bench
	@mkdir -p build/bench
	@build/release/bench/outbox_bench --directory build/bench --report build/bench/report.json $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS))

sim: build  ## run the simulation: SEEDS=300 of them from SEED=1 on; SEEDS=1 prints the whole trace (PROFILE=usual, keyed or stepwise for one kind)
	@build/$(PRESET)/tests/sim/outbox_sim --seed $(SEED) --seeds $(SEEDS) $(if $(PROFILE),--profile $(PROFILE))

# The legs under sanitizers need no consumers. The thread sanitizer runs the examples and the code of the pages too:
# people copy them.
LEG := unit|contract|acceptance|fault|sim

asan: PRESET := asan-ubsan
asan: EXAMPLES := OFF
asan: BENCH := OFF
asan: build  ## build and run the tests under the address and undefined behaviour sanitizers
	@find build/$(PRESET) -name '*.gcda' -delete
	@ctest --preset $(PRESET) -j$(JOBS) -L '$(LEG)'

tsan: PRESET := tsan
tsan: BENCH := OFF
tsan: build  ## build and run the tests, the examples and the code of the pages under the thread sanitizer
	@ctest --preset $(PRESET) -j$(JOBS) -L '$(LEG)|docs|example'

coverage:  ## print which lines of the library the tests of make asan reached; fails below 85 %
	@tools/install-packages coverage
	@test -n "$$(find build/asan-ubsan -name '*.gcda' 2>/dev/null | head -1)" || $(MAKE) asan
	@gcovr --root . --filter src/ --filter include/ --gcov-ignore-parse-errors --exclude-throw-branches --fail-under-line 85 build/asan-ubsan/src

lint:  ## check the format (clang-format-16) and run clang-tidy-16 over the library
	@tools/install-packages lint
	@git ls-files '*.cpp' '*.hpp' | xargs clang-format-16 --dry-run --Werror
	@cmake --preset dev -B build/lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DOUTBOX_TESTS=OFF -DOUTBOX_EXAMPLES=OFF --log-level=WARNING >/dev/null
	@tools/tidy

doxygen:  ## build the API pages from the headers into build/doxygen; a warning is an error
	@tools/install-packages doxygen
	@mkdir -p build && doxygen docs/Doxyfile

install:  ## install the library and the tool to PREFIX=/usr/local; manual pages too if scdoc is there
	@tools/install-packages build
	@cmake --preset release $(if $(CCACHE),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache) -DOUTBOX_TESTS=OFF -DOUTBOX_EXAMPLES=OFF --log-level=WARNING >/dev/null
	@cmake --build --preset release
	@cmake --install build/release --prefix $(or $(PREFIX),/usr/local)

deb:  ## make Debian packages in build/deb and check them with lintian
	@tools/install-packages deb
	@cmake -S . -B build/deb -G Ninja $(if $(CCACHE),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache) -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_SKIP_INSTALL_RPATH=ON -DCMAKE_SHARED_LINKER_FLAGS=-Wl,-z,relro,-z,now -DOUTBOX_DEB=ON -DOUTBOX_TESTS=OFF -DOUTBOX_EXAMPLES=OFF --log-level=WARNING >/dev/null
	@cmake --build build/deb
	@cd build/deb && rm -f *.deb && cpack -G DEB >/dev/null && ls *.deb
	@lintian --fail-on error,warning build/deb/*.deb

test-packages: deb  ## install the packages of make deb in a clean root, and use them
	@tools/test-packages build/deb

format:  ## format every source (clang-format-16)
	@tools/install-packages lint
	@git ls-files '*.cpp' '*.hpp' | xargs clang-format-16 -i

clean:  ## remove the build
	@rm -rf build
