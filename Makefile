# Bare machine: Python 3.11 or 3.12, git and make. Everything else goes into .venv.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3 || echo python3)
BIN := .venv/bin
LOCK := infra/requirements.lock
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo check test pin e2e test-all format lock bench clean

help: ## say what make can do
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) ## install into .venv; instant when nothing changed

demo: $(INSTALLED) ## Airflow refreshes the example corpus, then search it; Ctrl-C ends everything
	@$(BIN)/python infra/demo.py

check: $(INSTALLED) ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy infra/demo.py
	$(BIN)/lint-imports

test: $(INSTALLED) ## the tests that take seconds
	$(BIN)/pytest -m "not slow and not live"

pin: $(INSTALLED) ## pin what the steps make to their versions, where those went up
	$(BIN)/pytest tests/golden/test_outputs.py --update-golden

e2e: $(INSTALLED) ## the slower tests: whole refreshes, Airflow, a browser
	$(BIN)/pytest -m "slow or live"

test-all: $(INSTALLED) ## every test
	$(BIN)/pytest

format: $(INSTALLED) ## format the code and mend what lint can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(INSTALLED) ## resolve the dependencies anew, as far as pyproject.toml asks for it
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-annotate --custom-compile-command "make lock" --quiet -o $(LOCK)

bench: $(INSTALLED) ## every benchmark, beside its goal
	@set -e; for file in bench/*.py; do \
		name=$$(basename $$file .py); [ $$name = __init__ ] || $(BIN)/python -m bench.$$name; done

clean: ## remove caches and what builds leave; .venv and the index in .inset stay
	rm -rf build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml $(LOCK)
	@sh infra/install.sh $(PYTHON)
	@touch $@
