# `make demo` and `make test` need only python3 (>= 3.11) and g++; everything else comes from the package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := CMakeLists.txt pyproject.toml $(wildcard native/*)
# Statistical tests are single-threaded work: one process a core, one BLAS thread each.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: demo test test-slow lint bench docs clean

$(VENV)/.tools: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"
	$(BIN)/python -m pip install -q --group test
	touch $@

$(VENV)/.built: $(VENV)/.tools $(NATIVE)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install -q --no-build-isolation -e .
	touch $@

demo: $(VENV)/.built
	$(BIN)/python examples/demo.py

test: $(VENV)/.built
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.built
	$(PYTEST) -m slow

lint: $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror native/*.hpp native/*.cpp
	$(BIN)/mypy

bench: $(VENV)/.built
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

docs: $(VENV)/.built
	$(BIN)/python -m pip install -q --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

clean:
	rm -rf $(VENV) build dist demo-output
