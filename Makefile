# Bare machine: Python 3.11 or 3.12, git and make. Everything else goes into .venv, but RAGAS, which excludes packages of the
# lock.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3 || echo python3)
BIN := .venv/bin
LOCK := infra/requirements.lock
# Work stealing begins with equal shares in order, so that few fixtures of a module are built twice; slow tests of a file share
# a server or a cluster, for which they wait half of the time, so that one worker more than cores runs them.
PYTEST := $(BIN)/pytest --maxprocesses 4 --durations=20
RUNS_WITH := airflow endpoints models ray serve weaviate
INSTALLED := .venv/.installed
DEVELOPED := .venv/.installed-all
RAGAS := .venv-ragas/.installed

# Without bytecode each process compiles Great Expectations, scipy and the rest again: two seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install setup client demo platform check test pin e2e endurance test-all format lock ragas sbom audit clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## install what Inset needs to run into .venv (1.6 GB)

setup: client ## install everything into .venv, with torch and the test tools (6.5 GB)

client: $(DEVELOPED) ## generate the Python client and its models
	@$(BIN)/python clients/python/generate.py

demo: $(INSTALLED) ## refresh the example corpus in Airflow and serve the search page; Ctrl-C ends all
	@$(BIN)/python -m tests.demo

platform: $(DEVELOPED) ## run all services of a platform as local processes, with the example corpus; Ctrl-C ends all
	@$(BIN)/python -m tests.platform

check: client ## check lint, format, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases clients/python/generate.py
	$(BIN)/lint-imports

test: client ## run the fast tests
	$(PYTEST) -n logical --dist worksteal -m "not slow and not live and not endurance"

pin: $(DEVELOPED) ## record digests of the steps' outputs, after a step version was raised
	$(BIN)/pytest tests/golden/test_outputs.py --update-golden

e2e: client ## run the slow tests: whole refreshes, Airflow, Ray, a browser
	$(PYTEST) -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist loadfile --no-loadscope-reorder -m "(slow or live) and not endurance"

endurance: client $(RAGAS) ## run the tests that take minutes each: operators in Airflow, a platform whose parts die, damage
	$(PYTEST) -m endurance

test-all: test e2e endurance ## run all tests

format: $(DEVELOPED) ## format the code and fix what lint can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: ## resolve the dependencies of pyproject.toml again
	@test -x $(BIN)/uv || $(MAKE) install  # not by a prerequisite: what the lock lacks can't be installed by it
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-annotate --custom-compile-command "make lock" --quiet -o $(LOCK)
	$(BIN)/uv pip compile lab/ragas/requirements.in --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-annotate --custom-compile-command "make lock" --quiet -o lab/ragas/requirements.txt

ragas: $(RAGAS) ## make .venv-ragas, with which lab/ragas/score.py scores answers: 600 MB

sbom: $(INSTALLED) ## list what is installed in build/sbom.json, in the form of CycloneDX
	@mkdir -p build
	@$(BIN)/uv tool run --quiet --from 'cyclonedx-bom==7.5.0' cyclonedx-py environment --pyproject pyproject.toml \
		--output-reproducible --of JSON -o build/sbom.json $(BIN)/python

# A registry that mirrors PyPI without its database lets every package pass, so a package with a known vulnerability is asked for first.
AUDIT = $(BIN)/uv tool run --quiet --from 'pip-audit==2.10.1' pip-audit --disable-pip --progress-spinner off
audit: $(INSTALLED) ## look for known vulnerabilities in the lock; says so where PyPI's database can't be reached
	@mkdir -p build && echo 'jinja2==2.4.1' > build/vulnerable.txt
	@if $(AUDIT) --no-deps -r build/vulnerable.txt 2>/dev/null | grep -qE 'jinja2 .*(PYSEC|GHSA|CVE)'; then $(AUDIT) --require-hashes -r $(LOCK); \
		else echo "not audited: PyPI's database of vulnerabilities can't be reached from here"; fi

clean: ## remove caches and build output; keep .venv and the index in .inset
	rm -rf build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml $(LOCK) infra/install.sh
	@sh infra/install.sh $(PYTHON) $(RUNS_WITH)
	@touch $@

$(RAGAS): lab/ragas/requirements.txt $(INSTALLED)
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-ragas
	@$(BIN)/uv pip install --quiet --python .venv-ragas/bin/python --require-hashes -r $<
	@touch $@

$(DEVELOPED): pyproject.toml $(LOCK) infra/install.sh
	@sh infra/install.sh $(PYTHON) all
	@touch $(INSTALLED) $@
