# One command per tier. `make help` lists them; CONTRIBUTING.md says when to use which.
.DEFAULT_GOAL := help
.PHONY: help demo demo-trace programs build check test format lint sanitize fuzz soak bench bench-kube airflow image clean

JOBS ?= 2
FUZZ_SECONDS ?= 60
export JOBS FUZZ_SECONDS

PROGRAMS := berth berth-supervise berth-guard-grant berth-guard-probe berth_guard_preload

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: programs ## from a bare Debian 12: install, build, run a dozen jobs on simulated GPUs, say where to look next
	@tools/demo

demo-trace: programs ## a production trace under three placement policies, a table and a report
	@tools/demo-trace

programs: ## install what is missing and build the programs alone, half of the tree
	@tools/setup build
	@test -f build/build.ninja || cmake --preset release
	@cmake --build build -j$(JOBS) --target $(PROGRAMS)

build: ## install what is missing and build everything into build/ (programs in build/bin)
	@tools/setup build
	@test -f build/build.ninja || cmake --preset release
	@cmake --build build -j$(JOBS)

check: build ## the quick tier, under a minute: build, quick tests, format, layers
	@tools/setup test
	@tools/check-format
	@tools/check-layers
	@RC_PARAMS=seed=42 ctest --test-dir build -j$(JOBS) --output-on-failure --no-tests=error --timeout 60 -LE 'kube|airflow' -E '(Slow|Soak)[A-Za-z]*\.'

test: ## everything that CI checks, timed part by part
	@tools/test-all

format: ## bring every file into the form that `make check` wants
	@tools/setup test
	@tools/check-format --fix

lint: build ## clang-tidy on the whole tree (minutes; what passed is remembered)
	@tools/setup lint
	@tools/check-tidy --all

sanitize: ## every test under the address, undefined-behaviour and thread sanitizers
	@tools/sanitize

fuzz: ## every fuzzer for FUZZ_SECONDS (60) each, from its corpus in fuzz/corpus
	@tools/fuzz

soak: build ## the long runs of the tests that have them (suites named ...Soak)
	@BERTH_SOAK=1 ctest --test-dir build -j$(JOBS) --output-on-failure --no-tests=error --timeout 14400 -R 'Soak[A-Za-z]*\.'

bench: ## figures into build/bench.json, compared with bench/baseline.json
	@tools/bench

bench-kube: programs ## the scheduler on a real API server, against what that allows and kube-scheduler: build/bench-kube.json
	@cmake --build build -j$(JOBS) --target berth-bench-decisions
	@tools/bench-kube

airflow: ## the Airflow provider's wheel, into build/airflow/dist
	@tools/setup build
	@tests/airflow/environment provider >/dev/null
	@ls build/airflow/dist/*.whl

image: programs ## the container image, as build/berth-image.tar, for ctr, podman and docker
	@tools/image

clean: ## delete every build folder
	@rm -rf build build-asan build-debug build-fuzz build-tsan
