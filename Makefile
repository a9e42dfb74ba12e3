# Berth: one command per tier. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help build test

JOBS ?= 2

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build everything into build/ (programs in build/bin)
	@tools/setup build
	@test -f build/build.ninja || cmake --preset release
	@cmake --build build -j$(JOBS)

test: build ## everything that CI checks
	@ctest --test-dir build -j$(JOBS) --output-on-failure --timeout 300
