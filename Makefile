# `make demo` and `make test` need only python3 (>= 3.11) and g++ (>= 11) or clang (>= 14; CXX=clang++); everything else
# comes from the package index.
PYTHON ?= python3
VENV ?= .venv
# What is installed for the tests (a group of pyproject.toml), and an extra of the library beside it.
GROUP ?= test
EXTRA ?=
BIN := $(VENV)/bin
NATIVE := CMakeLists.txt pyproject.toml $(wildcard native/*)
# Statistical tests are single-threaded work: one process a core, one BLAS thread each.
JOBS ?= auto
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

.PHONY: demo test test-slow test-torch test-gpu test-oldest test-newest test-extra test-aarch64 cross wheel wheels sdist check-version address test-sdist lint bench docs fuzz sanitize clean

$(VENV)/.pip:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"
	touch $@

$(VENV)/.tools: $(VENV)/.pip pyproject.toml
	$(BIN)/python -m pip install -q --group $(GROUP)
	touch $@

$(VENV)/.built: $(VENV)/.tools $(NATIVE)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install -q --no-build-isolation -e ".$(if $(EXTRA),[$(EXTRA)])"
	touch $@

demo: $(VENV)/.built
	mkdir -p demo-output
	$(BIN)/bochner compare friedman1 --reference 2500 --runs 3 \
	  --out demo-output/report.html --picture demo-output/friedman1.png

test: $(VENV)/.built
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/.built
	$(PYTEST) -m slow

# Tensors on the host: the same results as arrays.
test-torch: $(VENV)/.built
	$(BIN)/python -m pip install -q torch==2.13.0
	$(PYTEST) tests/test_torch.py tests/test_examples.py tests/test_documentation.py tests/test_distributed.py -k "torch or gpu or device" -m "not slow and not gpu"

# On a machine with an NVIDIA GPU: the kernels, and models on the device.
test-gpu: $(VENV)/.built
	$(BIN)/python -m pip install -q "torch>=2.8" triton
	$(BIN)/python -m pytest -n 4 tests -m gpu

# The oldest dependencies that pyproject.toml allows, and the newest that there are, in environments of their own.
test-oldest:
	PIP_CONSTRAINT=$(CURDIR)/.ci/oldest.txt $(MAKE) VENV=.venv-oldest .venv-oldest/.built
	PYTEST_ADDOPTS="--ignore=tests/test_lint.py" $(MAKE) VENV=.venv-oldest test

test-newest:
	rm -rf .venv-newest
	$(MAKE) VENV=.venv-newest test

# What is required and one extra, in an environment of its own: `make test-extra EXTRA=dask`, or without any. What needs
# another one is skipped.
test-extra:
	$(MAKE) VENV=.venv-$(or $(EXTRA),bare) GROUP=bare EXTRA=$(EXTRA) test

# On Debian or Ubuntu for x86-64, with g++-aarch64-linux-gnu and qemu-user: the compiled core for AArch64, with its
# vector instructions and without any, tested in an emulator.
test-aarch64: $(VENV)/.pip
	$(BIN)/python -m pip install -q --group build
	PYTHON=$(BIN)/python .ci/test-aarch64
	PYTHON=$(BIN)/python MODE=scalar .ci/test-aarch64 -k "not 1100" tests/test_backends.py

# The compiled module for Windows, macOS and musl: compiled and linked, not run.
cross: $(VENV)/.pip
	$(BIN)/python -m pip install -q --group cross
	PYTHON=$(BIN)/python .ci/cross

# A wheel for this system, tried in an empty environment outside the source tree, with the tests of what is compiled.
wheel: $(VENV)/.pip
	$(BIN)/python -m pip install -q --group release
	rm -rf dist/raw build/wheel-env && mkdir -p dist/raw
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip wheel -q --no-build-isolation --no-deps -w dist/raw .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m auditwheel repair --strip --wheel-dir dist dist/raw/*.whl
	@test "$$(ls -t dist/*.whl | head -1 | xargs stat -c %s)" -lt 3000000 || { echo "the wheel is larger than 3 MB"; exit 1; }
	$(PYTHON) -m venv build/wheel-env
	build/wheel-env/bin/python -m pip install -q "$$(ls -t dist/*.whl | head -1)"
	cd build && wheel-env/bin/python $(CURDIR)/.ci/installed.py $(CURDIR)/README.md
	build/wheel-env/bin/python -m pip install -q pytest hypothesis
	cd build && OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 wheel-env/bin/python -m pytest -q -p no:cacheprovider -m "not slow" $(CURDIR)/tests/test_backends.py
	@ls -l dist/*.whl

# Wheels of all systems that this machine builds for, by cibuildwheel: on Linux it needs docker or podman, on Windows
# bash. On Linux and macOS, CIBW_ARCHS=native leaves other processors out.
wheels:
	$(PYTHON) -m pip install -q "cibuildwheel>=3.1"
	$(PYTHON) -m cibuildwheel --output-dir dist

sdist: $(VENV)/.pip
	$(BIN)/python -m pip install -q --group release
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m build --no-isolation --sdist --outdir dist
	$(BIN)/python -m twine check --strict dist/*.tar.gz

# What is tagged is what is released: `make check-version TAG=v0.1.0` before the tag, and in the workflow after it.
check-version:
	$(PYTHON) .ci/check_version.py $(TAG)

# Once, before the first release: where the repository is public. `make address URL=https://github.com/owner/bochner`
address:
	$(PYTHON) .ci/address.py $(URL)

# The tests as they come in the source distribution.
test-sdist: sdist
	rm -rf build/from-sdist && mkdir -p build/from-sdist
	tar -xzf "$$(ls -t dist/*.tar.gz | head -1)" -C build/from-sdist --strip-components=1
	$(MAKE) -C build/from-sdist test

lint: $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror native/*.hpp native/*.cpp
	$(BIN)/mypy

bench: $(VENV)/.built
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done

# The site: spelling is checked first, links and anchors with it, and every example of the gallery is run for its page.
docs: $(VENV)/.built
	$(BIN)/python -m pip install -q --group docs
	$(BIN)/codespell
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

# New hostile inputs each time, many of them (FUZZ=1000 for more), then libFuzzer on the loader of model files (Linux).
FUZZ ?= 200
fuzz: $(VENV)/.built
	$(BIN)/python -m pip install -q --group fuzz
	BOCHNER_FUZZ_EXAMPLES=$(FUZZ) $(PYTEST) tests/test_hostile_input.py tests/test_hostile_calls.py
	PYTHONPATH=tests $(BIN)/python fuzz/load.py -max_total_time=300

# The compiled core under the address and undefined-behaviour sanitizers, in an environment of its own: where bochner is
# installed for development, Python would import the ordinary core. Python itself never frees some of its memory: leaks
# are not looked for. The code is the same for vectors of 16 bytes and of 64; those of AVX-512 would take a quarter of
# an hour to compile.
sanitize:
	$(MAKE) VENV=.venv-sanitize GROUP=bare .venv-sanitize/.tools
	PATH="$(CURDIR)/.venv-sanitize/bin:$$PATH" .venv-sanitize/bin/python -m pip install -q --no-build-isolation -C build-dir=build/sanitize -C install.strip=false -C cmake.define.BOCHNER_SANITIZE=ON -C cmake.define.BOCHNER_BASELINE_ONLY=ON .
	ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
	OMP_NUM_THREADS=2 .venv-sanitize/bin/python -m pytest -q -p no:cacheprovider -m "not slow" tests/test_backends.py tests/test_operators.py tests/test_sketches.py tests/test_rows.py

clean:
	rm -rf $(VENV) .venv-* build dist demo-output
