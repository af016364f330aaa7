# `make demo` and `make check` each set up everything they need on a fresh machine: a virtual environment in .venv
# and the packages that pyproject.toml names. Nothing outside this folder is written, save the on-disk kernel cache.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
JOBS ?= 2
FORMATTED := xyla tests bench examples conftest.py

.PHONY: help setup demo check format lint types layers test bench clean

help:
	@echo "make demo    compile and run the programs of examples/"
	@echo "make check   format, lint, types, layering and every test"
	@echo "make format  rewrite the sources in the project's format"
	@echo "make bench   the benchmark tables (minutes)"
	@echo "make setup   only the virtual environment"

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "xyla needs Python 3.11 or newer (make PYTHON=...)")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/python -m examples.demo

check: lint types layers test

format: $(STAMP)
	$(BIN)/ruff format $(FORMATTED)
	$(BIN)/ruff check --fix $(FORMATTED)

lint: $(STAMP)
	$(BIN)/ruff format --check $(FORMATTED)
	$(BIN)/ruff check $(FORMATTED)

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

bench: $(STAMP)
	$(BIN)/python -m bench.import_time
	$(BIN)/python -m bench.load_speed
	$(BIN)/python -m bench.compile_time
	$(BIN)/python -m bench.models

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
