# SPDX-License-Identifier: BSD-3-Clause
# The front door. Everything is done by CMake and scripts/; see CMakePresets.json for other builds.

BUILD_DIR   ?= build
JOBS        ?= $(shell nproc)
CMAKE_FLAGS ?=

.DEFAULT_GOAL := build
.PHONY: setup configure build demo test test-report stress fuzz bench peers classic budgets format lint clean help

setup: ## install what is missing: packages, LibTorch
	@scripts/setup.sh

configure: setup
	@cmake -S . -B $(BUILD_DIR) -G Ninja -D CMAKE_BUILD_TYPE=Release $(CMAKE_FLAGS)

build: configure ## library, command, tests and examples, in build/
	@cmake --build $(BUILD_DIR) --parallel $(JOBS)

DEMO = gpt --layers 4 --width 192 --heads 4 --context 128
demo: configure ## a language model on a text, plainly and in half the memory, with the same losses
	@cmake --build $(BUILD_DIR) --parallel $(JOBS) --target reprise_command
	$(BUILD_DIR)/reprise train $(DEMO) --steps 40 --log-every 10
	$(BUILD_DIR)/reprise train $(DEMO) --steps 40 --log-every 10 --budget 50%
	$(BUILD_DIR)/reprise compare $(DEMO) --steps 6 --strategies plain,checkpoint,budget=50% \
	  --report $(BUILD_DIR)/demo.html --timeline $(BUILD_DIR)/demo_memory.svg
	@echo "memory over time, one picture each: $(BUILD_DIR)/demo_memory.svg; all: $(BUILD_DIR)/demo.html"

test: build ## all tests
	@ctest --test-dir $(BUILD_DIR) --output-on-failure --parallel $(JOBS) \
	  --output-log $(BUILD_DIR)/ctest.log

test-report: configure ## reports of the command, opened in headless Chromium (installed where that can be)
	@cmake --build $(BUILD_DIR) --parallel $(JOBS) --target reprise_command
	@python3 scripts/test_report.py --build $(BUILD_DIR)

REGIONS ?= 2000
stress: setup ## random nested regions under sanitizers: address and undefined, then thread
	@set -e; for preset in asan tsan; do \
	  cmake --preset $$preset -D REPRISE_PCH=OFF $(CMAKE_FLAGS); \
	  cmake --build build-$$preset --parallel $(JOBS) --target reprise_stress; \
	  OMP_NUM_THREADS=1 build-$$preset/tests/reprise_stress $(REGIONS); done

FUZZ_SECONDS ?= 60
fuzz: configure ## random programs against the tape, with fresh seeds, for FUZZ_SECONDS
	@cmake --build $(BUILD_DIR) --parallel $(JOBS) --target reprise_fuzz
	OMP_NUM_THREADS=1 $(BUILD_DIR)/tests/reprise_fuzz --seconds $(FUZZ_SECONDS)

bench: configure ## build the benches and run each
	@cmake --build $(BUILD_DIR) --parallel $(JOBS) --target bench_programs
	@set -e; for program in $(BUILD_DIR)/bench/bench_*; do \
	  [ -x "$$program" ] && [ -f "$$program" ] || continue; \
	  echo "== $$program"; "$$program"; done

PEER_PYTHON ?=
PEER_FLAGS  ?=
peers: configure ## against PyTorch in Python, into docs/benchmarks.md; PEER_PYTHON names one that is there
	@cmake --build $(BUILD_DIR) --parallel $(JOBS) --target gpt_peer peer_meter
	@python3 bench/peers/compare.py --build $(BUILD_DIR) --write \
	  $(if $(PEER_PYTHON),--python $(PEER_PYTHON),--venv $(BUILD_DIR)/peers-venv) $(PEER_FLAGS)

CLASSIC_FLAGS ?=
classic: configure ## memory against time by well-known strategies, into docs/benchmarks.md
	@cmake --build $(BUILD_DIR) --parallel $(JOBS) --target reprise_command
	@python3 bench/classic.py --reprise $(BUILD_DIR)/reprise $(CLASSIC_FLAGS)

BUDGET_FLAGS ?=
budgets: configure ## training inside a number of bytes, into docs/benchmarks.md
	@cmake --build $(BUILD_DIR) --parallel $(JOBS) --target reprise_command
	@python3 bench/budgets.py --reprise $(BUILD_DIR)/reprise $(BUDGET_FLAGS)

format: ## format the C++ files in place
	@scripts/format.sh

lint: ## formatting, layering and, where it is installed, cppcheck
	@scripts/format.sh --check
	@python3 scripts/check_layers.py
	@if command -v cppcheck >/dev/null; then \
	  cppcheck --quiet --language=c++ --std=c++20 --enable=warning,performance,portability \
	    --suppress=missingInclude --suppress=missingIncludeSystem --inline-suppr \
	    --error-exitcode=1 -I include -I src src workloads tools; fi

clean: ## remove the build
	@cmake -E rm -rf $(BUILD_DIR)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20
