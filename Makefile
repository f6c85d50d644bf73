# From a clone to a running proxy: `make run`. Everything else: `make help`.
# The steps behind these targets are in .ci/setup; each is fast when there is nothing to do.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run test venv check lint-env fix python python-optimized lock fuzz soak conformance clean

# Programs that start often, as in the tests, keep their bytecode.
unexport PYTHONDONTWRITEBYTECODE

VENV := $(or $(MTPROXY_VENV),.venv)
BIN := $(VENV)/bin
# Words for the program that a target starts: make test ARGS="-k seeklock"
ARGS ?=

help: ## this list
	@echo "mtproxy: make TARGET [ARGS='...']"
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | awk -F'\t' '{ printf "  %-18s %s\n", $$1, $$2 }'
	@echo "environment:"
	@echo "  MTPROXY_PYTHON     an interpreter, or the word plain or optimized: built once into the cache"
	@echo "  MTPROXY_CACHE      where interpreters and logs are kept (~/.cache/mtproxy)"
	@echo "  MTPROXY_VENV       the environment's folder (.venv)"

run: venv ## set up, then a demonstration: two origin servers, the proxy in front, Ctrl-C ends it
	@exec $(BIN)/mtproxy demo $(ARGS)

test: venv ## set up, then the whole test suite
	@.ci/setup test-packages
	@echo "==> pytest on $$(nproc) cores" >&2
	@exec $(BIN)/python -m pytest -n $$(nproc) --dist worksteal $(ARGS)

venv: ## set up alone: interpreter and .venv with .venv/bin/mtproxy
	@.ci/setup venv >/dev/null

check: venv lint-env ## lint, format, types, import contracts
	@.ci/check

fix: venv ## let ruff repair and format what it can
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

python: ## find or build the plain interpreter, print its path
	@.ci/setup python

python-optimized: ## build the interpreter with PGO and LTO beside the plain one (20 minutes)
	@.ci/setup python optimized
	@echo "    to use it: MTPROXY_PYTHON=optimized MTPROXY_VENV=.venv-optimized make venv" >&2

fuzz: venv ## the HTTP/1 parser against h11, random input, 60 seconds: ARGS="--seconds 600"
	@exec $(BIN)/python -m mtproxy.testing.h1fuzz $(ARGS)

soak: venv ## the long stress run of the whole program, 200,000 requests: ARGS="--requests 20000"
	@.ci/setup test-packages
	@exec $(BIN)/python tests/stress/soak.py $(ARGS)

conformance: venv ## HAProxy's own regression tests, downloaded, with mtproxy under test
	@exec $(BIN)/python tests/conformance/run.py $(ARGS)

lock: venv ## pin the requirements anew
	@.ci/setup lock

clean: ## remove caches and environments of this checkout
	@rm -rf .venv .venv-* .tools .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

lint-env: venv
	@.ci/setup lint >/dev/null
