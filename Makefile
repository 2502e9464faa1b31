# `make demo` and `make test` need only python3 (>= 3.11) and g++; everything else comes from the package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := CMakeLists.txt pyproject.toml $(wildcard native/*)
# Statistical tests are single-threaded work: one process a core, one BLAS thread each.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: demo test test-slow test-torch test-gpu lint bench docs fuzz sanitize clean

$(VENV)/.tools: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"
	$(BIN)/python -m pip install -q --group test
	touch $@

$(VENV)/.built: $(VENV)/.tools $(NATIVE)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install -q --no-build-isolation -e .
	touch $@

demo: $(VENV)/.built
	mkdir -p demo-output
	$(BIN)/bochner compare digits --no-standardize --runs 3 \
	  --out demo-output/report.html --picture demo-output/digits.png

test: $(VENV)/.built
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.built
	$(PYTEST) -m slow

# Tensors on the host: the same results as arrays.
test-torch: $(VENV)/.built
	$(BIN)/python -m pip install -q torch==2.13.0
	$(PYTEST) tests/test_torch.py tests/test_examples.py tests/test_distributed.py -k "torch or gpu or device" -m "not slow and not gpu"

# On a machine with an NVIDIA GPU: the kernels, and models on the device.
test-gpu: $(VENV)/.built
	$(BIN)/python -m pip install -q "torch>=2.8" triton
	$(BIN)/python -m pytest -n 4 tests -m gpu

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

# New hostile inputs each time, many of them (FUZZ=1000 for more), then libFuzzer on the loader of model files (Linux).
FUZZ ?= 200
fuzz: $(VENV)/.built
	$(BIN)/python -m pip install -q --group fuzz
	BOCHNER_FUZZ_EXAMPLES=$(FUZZ) $(PYTEST) tests/test_hostile_input.py tests/test_hostile_calls.py
	PYTHONPATH=tests $(BIN)/python fuzz/load.py -max_total_time=300

# The compiled core under the address and undefined-behaviour sanitizers. Python itself never frees some of its memory:
# leaks are not looked for. The code is the same for vectors of 16 bytes and of 64; those of AVX-512 would take a
# quarter of an hour to compile.
sanitize: $(VENV)/.tools
	$(BIN)/cmake -S . -B build/sanitize -G Ninja -DCMAKE_BUILD_TYPE=Release -DBOCHNER_SANITIZE=ON -DBOCHNER_BASELINE_ONLY=ON -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python
	$(BIN)/cmake --build build/sanitize
	rm -rf build/sanitized && mkdir -p build/sanitized && cp -r src/bochner build/sanitized/ && rm -f build/sanitized/bochner/_native*.so
	cp build/sanitize/_native*.so build/sanitized/bochner/
	PYTHONPATH=build/sanitized ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
	OMP_NUM_THREADS=2 $(BIN)/python -m pytest -q -p no:cacheprovider -m "not slow" tests/test_backends.py tests/test_operators.py tests/test_sketches.py tests/test_rows.py

clean:
	rm -rf $(VENV) build dist demo-output
