# The commands of the project. `make` lists them. Every one installs and builds what it needs.
.DEFAULT_GOAL := help
.PHONY: help setup configure build demo test check sanitize bench show neighbour format clean

help:
	@echo "make build     build all: build/release/larder, the tools beside it, tests and benchmarks"
	@echo "make demo      build larder and let a small trained model answer (DEMO=--big: one of 620 MB in 200 MB, too)"
	@echo "make test      build and run all tests"
	@echo "make check     format, static analysis and layering"
	@echo "make sanitize  the unit tests under ASan/UBSan and TSan"
	@echo "make bench     micro benchmarks"
	@echo "make show      measure a 6 GB model in a 2.5 GB cgroup, and the other figures of docs/benchmarks.md, in one report (root)"
	@echo "make neighbour measure how fast others may take memory beside larder in one cgroup (root)"
	@echo "make format    reformat the sources"
	@echo "make clean     remove build/ (the built llama.cpp stays in the cache)"

setup:
	@scripts/setup.sh

configure: setup
	@cmake --preset release $(if $(LARDER_LLAMA_DIR),-DLARDER_LLAMA_DIR=$(LARDER_LLAMA_DIR)) --log-level=WARNING >/dev/null

build: configure
	@cmake --build --preset release

demo: configure
	@cmake --build --preset release --target larder larder-make-model
	@scripts/demo.sh $(DEMO) build/release

test: build
	@ctest --preset release

check: build
	@scripts/check.sh

sanitize: setup
	@scripts/sanitize.sh

bench: configure
	@cmake --build --preset release --target store_bench
	@build/release/bench/store_bench

show: configure
	@cmake --build --preset release --target larder larder-make-recite store_bench touched_slices
	@bench/show.sh $(SHOW)

neighbour: configure
	@cmake --build --preset release --target larder larder-make-model take_memory
	@bench/neighbour.sh $(NEIGHBOUR)

format: setup
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i

clean:
	rm -rf build
