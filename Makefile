# The front door: each target installs what it needs, builds, and runs.
PRESET ?= dev
SEEDS ?= 300
SEED ?= 1

# ccache when it is there; nothing changes when it is not.
CCACHE := $(shell command -v ccache 2>/dev/null)
CONFIGURE := cmake --preset $(PRESET) $(if $(CCACHE),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)

.PHONY: help demo test build sim asan tsan format clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

demo:  ## an order service on SQLite that is killed in the middle, and recovers
	@tools/install-packages build
	@$(CONFIGURE) -DOUTBOX_TESTS=OFF --log-level=WARNING >/dev/null
	@cmake --build --preset $(PRESET) --target example_demo
	@build/$(PRESET)/examples/example_demo

build:  ## build everything
	@tools/install-packages test
	@$(CONFIGURE) -DOUTBOX_TESTS=ON --log-level=WARNING >/dev/null
	@cmake --build --preset $(PRESET)

test: build  ## build and run every test
	@ctest --preset $(PRESET) -j2

sim: build  ## run the simulation: SEEDS=300 of them from SEED=1 on; SEEDS=1 prints the whole trace
	@build/$(PRESET)/tests/sim/outbox_sim --seed $(SEED) --seeds $(SEEDS)

asan:  ## build and run every test under the address and undefined behaviour sanitizers
	@$(MAKE) --no-print-directory test PRESET=asan-ubsan

tsan:  ## build and run every test under the thread sanitizer
	@$(MAKE) --no-print-directory test PRESET=tsan

format:  ## format every source (clang-format-16)
	@git ls-files "*.cpp" "*.hpp" | xargs clang-format-16 -i

clean:  ## remove the build
	@rm -rf build
