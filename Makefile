# Every target works as the first command in a fresh clone: it makes .venv and installs what it needs there.
# Another interpreter:  make test PYTHON=/path/to/python3.12
# Other workers:        make test JOBS=1

VENV := .venv
PY := $(VENV)/bin/python
JOBS ?= auto

# One line per set of extras; the stamp $(VENV)/.installed-<set> is as old as its last installation.
EXTRAS_run := [plot]
EXTRAS_test := [test,secure,plot,results,serve,postgres]
EXTRAS_check := [check,serve,postgres]
EXTRAS_docs := [docs]
EXTRAS_serve := [serve]
EXTRAS_bench := [plot,serve,postgres]

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo demo-deployed test test-full check format bench docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.installed-run ## what privacy costs under each trust model: a simulation, a figure, and the noise behind it
	@$(VENV)/bin/bandanna demo
	@echo "The noise behind it - the least that keeps the promise, for a batch of 200:"
	@$(VENV)/bin/bandanna calibrate --dim 5 --epsilon 1 --delta 1e-5 --batch 200
	@echo "The papers' printed constants, same promise:"
	@$(VENV)/bin/bandanna calibrate --dim 5 --epsilon 1 --delta 1e-5 --batch 200 --calibration paper

demo-deployed: $(VENV)/.installed-serve ## a deployment on this machine: processes, simulated users, and what each role saw
	@$(VENV)/bin/bandanna demo-deployed

test: $(VENV)/.installed-test ## all tests but the long ones
	@$(PY) -m pytest -n $(JOBS) --dist worksteal -m "not full"

test-full: $(VENV)/.installed-test ## all tests
	@$(PY) -m pytest -n $(JOBS) --dist worksteal

# Each worker has one core: more BLAS threads than cores only wait for each other.
test test-full bench: export OMP_NUM_THREADS = 1
test test-full bench: export OPENBLAS_NUM_THREADS = 1

check: $(VENV)/.installed-check ## formatting, lint, types, import contracts (all four, then the verdict)
	@failed=""; \
	run() { echo "== $$*"; "$(PY)" -m "$$@" || failed="$$failed [$$*]"; }; \
	run ruff format --check .; \
	run ruff check .; \
	run mypy; \
	echo "== lint-imports"; "$(VENV)/bin/lint-imports" --no-logo || failed="$$failed [lint-imports]"; \
	if [ -n "$$failed" ]; then echo "make check: failed:$$failed" >&2; exit 1; fi

format: $(VENV)/.installed-check ## rewrite the files as `make check` wants them
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

bench: $(VENV)/.installed-bench ## speed, as ratios measured in one run
	@$(PY) -m benchmarks

docs: $(VENV)/.installed-docs ## the documentation, into site/
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet --site-dir site
	@echo "site/index.html"

clean: ## remove the environment, caches and built files
	rm -rf $(VENV) site dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed-%: pyproject.toml $(VENV)/.created
	@echo "Installing bandanna$(EXTRAS_$*) into $(VENV) (the first time takes a minute or two)"
	@$(PY) -m pip install -qq --disable-pip-version-check --editable '.$(EXTRAS_$*)'
	@touch $@

# An environment that is there already is used; else the newest suitable Python that can make one, or PYTHON.
$(VENV)/.created:
	@if $(PY) -m pip --version >/dev/null 2>&1; then exit 0; fi; \
	suits() { "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }; \
	complete() { "$$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }; \
	found=""; bare=""; \
	for each in $(or $(PYTHON),python3.13 python3.12 python3.11 python3 python); do \
	  suits "$$each" || continue; \
	  if complete "$$each"; then found="$$each"; break; fi; \
	  bare="$${bare:-$$each}"; \
	done; \
	if [ -z "$$found" ] && [ -n "$$bare" ]; then \
	  version=$$("$$bare" -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  echo "$$bare cannot make virtual environments: its venv module is incomplete." >&2; \
	  echo "On Debian or Ubuntu:  apt install python$$version-venv" >&2; \
	  exit 1; \
	fi; \
	if [ -z "$$found" ]; then \
	  echo "Bandanna needs Python 3.11 or newer; $(if $(PYTHON),$(PYTHON) is not,none was found)." >&2; \
	  echo "Install one, or name one:  make PYTHON=/path/to/python3.11 ..." >&2; \
	  exit 1; \
	fi; \
	"$$found" -m venv --clear $(VENV)
	@touch $@
