# Everything a checkout needs, from Python >= 3.11 and make alone. `make` lists the targets.
#
# The virtual environment is made once and filled in two steps, each marked by a stamp file: `runtime`
# (enough for the demo) and `dev` (tests and linters). A stamp is redone when the pinned requirements or
# pyproject.toml change; `make clean` starts over, which is also how to change the interpreter.

VENV    := .venv
BIN     := $(VENV)/bin
WORKERS ?= 2
SPREAD  := --dist worksteal # neighbours stay on one worker, so that a cluster of a module is started once
COMPILED = $(CURDIR)/build/compiled
export PUMICE_ENGINE_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pumice/compiled-engine
PIP     := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
LOCKED  := $(PIP) install --require-hashes
# Many images set this. The tests start hundreds of processes, and each would then compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

# $(PYTHON) if given, else the first of these that is new enough and can make a virtual environment.
CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
SUITABLE   := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))

.DEFAULT_GOAL := help
.PHONY: help demo test test-quick test-compiled test-kube test-node test-clients test-operators test-volcano test-long \
	lint lint-ui format package bench bench-peers soak lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.runtime ## see it schedule: a small cluster, its share tree and its decisions
	@$(BIN)/pumice demo

# Many tests wait for processes and servers, so that four workers keep two cores busy.
test: WORKERS := 4
test: $(VENV)/.dev ## the test suite (WORKERS=4)
	$(BIN)/pytest -n $(WORKERS) $(SPREAD) $(AGAIN)

test-quick: $(VENV)/.dev ## the tests of engine, model, client and rules, which start no processes (WORKERS=2)
	HYPOTHESIS_PROFILE=$(or $(HYPOTHESIS_PROFILE),quick) $(BIN)/pytest --quick -n $(WORKERS) $(SPREAD) $(AGAIN)

# What runs on the compiled engine: its own suite and those of the packages that hold or replay its objects. `make test`
# tries the same examples of every property each time; this one draws few, but new ones.
COMPILED_TESTS := tests/engine tests/model tests/config tests/decision_log tests/sim tests/kubebase \
	tests/test_compile_engine.py tests/test_engine_page.py tests/test_extending.py tests/test_scenarios_page.py
test-compiled: $(VENV)/.dev ## the tests of the engine on the compiled engine, and its decisions against pure Python
	@mkdir -p build; $(BIN)/python tools/compile_engine.py $(COMPILED) 2>$(COMPILED).log; status=$$?; \
	if [ $$status -eq 3 ] && [ "$$CI" != true ]; then tail -n 1 $(COMPILED).log; exit 0; fi; \
	[ $$status -eq 0 ] || { cat $(COMPILED).log; exit $$status; }; \
	PYTHONPATH=$(COMPILED) HYPOTHESIS_PROFILE=$(or $(HYPOTHESIS_PROFILE),fresh) \
	    $(BIN)/pytest -n $(WORKERS) $(SPREAD) $(COMPILED_TESTS) $(AGAIN)

test-kube: WORKERS := 4
test-kube: $(VENV)/.dev ## the tests against a real kube-apiserver and etcd, which are built once if need be (WORKERS=4)
	@place=$$($(BIN)/python -m tools.kubernetes_binaries); status=$$?; \
	if [ $$status -eq 3 ] && [ "$$CI" != true ]; then echo "skipped: no real Kubernetes API here"; exit 0; fi; \
	[ $$status -eq 0 ] || exit $$status; \
	echo "against $$place"; K8S_BIN="$$place" $(BIN)/pytest -m "kube and not long" -n $(WORKERS) --dist loadfile $(AGAIN)

test-node: $(VENV)/.dev ## the tests on real kubelets and containers, which are built once if need be; needs root
	@place=$$($(BIN)/python -m tools.node_binaries); status=$$?; \
	if [ $$status -eq 3 ] && [ "$$PUMICE_TEST_NODE" != 1 ]; then echo "skipped: no real nodes here"; exit 0; fi; \
	[ $$status -eq 0 ] || exit $$status; \
	$(BIN)/python tools/compile_engine.py $(COMPILED) 2>/dev/null || [ $$? -eq 3 ] || exit 1; \
	echo "with $$place"; $(BIN)/pytest -m node tests/node $(AGAIN)

test-clients: $(VENV)/.dev ## the tests with Kubernetes clients of several languages, which are installed once if need be
	@place=$$($(BIN)/python -m tools.client_environments); status=$$?; \
	if [ $$status -eq 3 ] && [ "$$CI" != true ]; then echo "skipped: no clients here"; exit 0; fi; \
	[ $$status -eq 0 ] || exit $$status; \
	echo "with $$place"; PUMICE_CLIENTS="$$place" $(BIN)/pytest -m clients tests/clients $(AGAIN)

test-operators: $(VENV)/.dev ## the tests with mpi-operator, which is built once if need be
	@place=$$($(BIN)/python -m tools.operator_binaries); status=$$?; \
	if [ $$status -eq 3 ] && [ "$$CI" != true ]; then echo "skipped: no operator here"; exit 0; fi; \
	[ $$status -eq 0 ] || exit $$status; \
	echo "with $$place"; PUMICE_OPERATORS="$$place" $(BIN)/pytest -m operators tests/operators $(AGAIN)

test-volcano: $(VENV)/.dev ## Volcano's own end-to-end suites, which are built once if need be; half an hour (SUITES="jobp vcctl")
	@$(BIN)/python -m tools.volcano_suites; status=$$?; \
	if [ $$status -eq 3 ] && [ "$$CI" != true ]; then echo "skipped: no suites of Volcano here"; exit 0; fi; \
	[ $$status -eq 0 ] || exit $$status; \
	if [ "$(SERVER)" = kubernetes ]; then K8S_BIN=$$($(BIN)/python -m tools.kubernetes_binaries) || exit; export K8S_BIN; fi; \
	if [ "$(SERVER)" = nodes ]; then $(BIN)/python -m tools.node_binaries >/dev/null || exit; \
	    $(BIN)/python tools/compile_engine.py $(COMPILED) 2>/dev/null || [ $$? -eq 3 ] || exit 1; fi; \
	$(BIN)/python -m tests.volcano.run $(addprefix --server ,$(SERVER)) $(addprefix --suite ,$(SUITES)) $(ARGS)

test-long: $(VENV)/.dev ## the long tests, one process, printing their distributions
	HYPOTHESIS_PROFILE=$(or $(HYPOTHESIS_PROFILE),long) $(BIN)/pytest -m "long and not kube" -s

lint: $(VENV)/.dev lint-ui ## ruff, mypy --strict, the import contracts, undeclared dependencies, the pages
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict src tools $(wildcard benchmarks)
	$(BIN)/lint-imports
	$(BIN)/deptry src
	$(BIN)/deptry benchmarks tests tools --config requirements/deptry.toml

lint-ui: $(VENV)/.dev ## the pages of pumice ui: Biome, tsc, the hashes of their libraries; needs Node.js
	$(BIN)/python -m tools.ui_libraries
	@if ! command -v npm >/dev/null; then \
	    if [ "$$CI" = true ]; then echo "npm is not on PATH" >&2; exit 1; fi; \
	    echo "skipped: Node.js is not here (npm is not on PATH)"; exit 0; \
	fi; \
	cd tools/ui && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --silent --no-audit --no-fund; } && npm run --silent lint

format: $(VENV)/.dev ## rewrite the sources as `make lint` wants them
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

package: $(VENV)/.dev ## sdist and wheel in dist/, complete and tried in an empty environment
	$(BIN)/python -m tools.package_check dist

bench: $(VENV)/.dev ## the benchmarks
	$(BIN)/python -m benchmarks.run

bench-peers: $(VENV)/.dev ## the same workloads on other schedulers
	$(BIN)/python -m benchmarks.peers

soak: $(VENV)/.dev ## churn, attackers and faults at once, for MINUTES (60)
	$(BIN)/python -m benchmarks.soak.run --minutes $(or $(MINUTES),60)

# ---- pinned requirements ----------------------------------------------------------------------------

# One file per purpose, each constrained by those before it so that all agree on every version. Universal:
# hashes for every platform, one version for every Python (the same numbers everywhere).
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-emit-index-url --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

lock: $(VENV)/.lock ## pin requirements/*.txt anew; existing pins stay unless UPGRADE=1
	$(COMPILE) pyproject.toml -o requirements/runtime.txt
	$(COMPILE) requirements/build.in -c requirements/runtime.txt -o requirements/build.txt
	$(COMPILE) requirements/compile.in -c requirements/runtime.txt -c requirements/build.txt -o requirements/compile.txt
	$(COMPILE) requirements/dev.in -c requirements/runtime.txt -c requirements/build.txt -c requirements/compile.txt \
	    -o requirements/dev.txt
	$(COMPILE) requirements/lock.in -o requirements/lock.txt

# ---- the environment --------------------------------------------------------------------------------

$(VENV)/.created:
	@for python in $(CANDIDATES); do \
	    if "$$python" -c '$(SUITABLE)' 2>/dev/null; then \
	        echo "making $(VENV) with $$("$$python" --version)"; \
	        "$$python" -m venv --clear $(VENV) && touch $@; exit; \
	    fi; \
	done; \
	echo "make: no usable Python among: $(CANDIDATES)." >&2; \
	echo "Pumice needs Python >= 3.11 with the venv module (on Debian: python3-venv);" >&2; \
	echo "name one with: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; \
	exit 1

$(VENV)/.runtime: $(VENV)/.created requirements/runtime.txt requirements/build.txt pyproject.toml
	@echo "installing Pumice and what it runs on"
	@$(LOCKED) -r requirements/runtime.txt -r requirements/build.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@$(PIP) check || { echo "requirements/ lag behind pyproject.toml: run make lock" >&2; exit 1; }
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt requirements/compile.txt
	@echo "installing the tools"
	@$(LOCKED) -r requirements/dev.txt -r requirements/compile.txt
	@touch $@

$(VENV)/.lock: $(VENV)/.created requirements/lock.txt
	@$(LOCKED) -r requirements/lock.txt
	@touch $@

clean: ## remove the environment and everything generated
	rm -rf $(VENV) build dist tools/ui/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests $(wildcard benchmarks) -name __pycache__ -type d -prune -exec rm -rf {} +
