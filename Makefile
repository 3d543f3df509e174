# make run        the main job: points to clusters, without help, with labels, with pairs
# make test       lint, types, import contracts, the quick tests (on two cores at most 6 minutes)
# make test-all   the thorough tests, and those of ranks, of scanpy, of the page and of the docs
# make test-slow  reproductions on real data
# make bench      measurements against peers, kept in bench/results.json
# make figures    figures of bench/results.json into README, docs and plots
# make test-scanpy  a round trip through scanpy, in an environment of its own
# make test-scale  the ranks of an MPI job, in an environment of its own (Debian: MPI and PETSc)
# make test-ui    the page in a real Chromium, in an environment of its own (Debian: Chromium)
# make docs       the documentation as a site, into site/
# make dist       wheel and source distribution, checked, into dist/
# make papers     the papers' tables and figures again, into bench/papers/RESULTS.md
PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin
PYTHON_FOUND := $(shell command -v $(PYTHON) || command -v python3)

.PHONY: run test tests test-all test-thorough environments style types contracts test-slow test-scanpy test-scale test-ui bench figures papers lint docs dist clean

$(BIN)/.installed: pyproject.toml
	$(PYTHON_FOUND) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

run: $(BIN)/.installed
	$(BIN)/mustlink demo

lint: style types contracts

style: $(BIN)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(BIN)/.installed
	$(BIN)/mypy

contracts: $(BIN)/.installed
	$(BIN)/lint-imports

# A process a core. Each begins with folders of its own, so that a kernel is rarely compiled twice.
# Threads that wait sleep: spinning they would take the other process's core.
# Modules are compiled once, not by every process that a test starts, where an image forbids to keep them.
QUIETLY := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE PYTHONDONTWRITEBYTECODE=
tests: $(BIN)/.installed
	$(QUIETLY) $(BIN)/pytest -n auto --dist worksteal

test-thorough: $(BIN)/.installed
	$(QUIETLY) $(BIN)/pytest -n auto --dist worksteal -m "thorough and not slow"

# The environments of the others wait for the network while the thorough tests wait for the processor.
test-all: $(BIN)/.installed
	$(MAKE) --jobs test-thorough environments
	$(MAKE) test-scale
	$(MAKE) --jobs=2 test-ui test-scanpy docs   # one process each

environments:
	$(MAKE) -j1 $(SCALE)/.installed $(SCANPY)/.installed $(UI)/.installed

test: $(BIN)/.installed
	$(MAKE) --jobs lint tests   # at the same time

test-slow: $(BIN)/.installed
	$(BIN)/pytest -m slow

SCANPY := .venv-scanpy
$(SCANPY)/.installed: pyproject.toml
	$(PYTHON_FOUND) -m venv $(SCANPY)
	$(SCANPY)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[plot]' scanpy pytest
	touch $@

test-scanpy: $(SCANPY)/.installed
	$(SCANPY)/bin/python -m pytest --confcutdir=tests/scanpy_roundtrip tests/scanpy_roundtrip \
	    tests/project/test_examples.py::test_an_expert_tells_cells_apart

SCALE := .venv-scale
$(SCALE)/.installed: pyproject.toml tests/scale/environment.sh
	tests/scale/environment.sh $(SCALE)
	touch $@

test-scale: $(SCALE)/.installed
	$(SCALE)/bin/python -m pytest -n auto --dist loadfile tests/scale

UI := .venv-ui
$(UI)/.installed: pyproject.toml tests/ui/environment.sh
	tests/ui/environment.sh $(UI)
	touch $@

test-ui: $(UI)/.installed
	$(UI)/bin/python -m pytest --confcutdir=tests/ui -m browser tests/ui

docs: $(BIN)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/mkdocs build --strict

dist: $(BIN)/.installed
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check twine
	$(BIN)/python -m twine check --strict dist/*

bench: $(BIN)/.installed
	$(BIN)/python bench/commands.py --run ""

figures: $(BIN)/.installed
	$(BIN)/python bench/fill.py

papers: $(BIN)/.installed
	$(BIN)/python -m bench.papers

clean:
	rm -rf $(VENV) $(SCANPY) $(SCALE) $(UI) dist site demo-out .mypy_cache .ruff_cache .pytest_cache .hypothesis
