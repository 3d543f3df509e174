# make run        the main job: a photograph cut along a user's strokes
# make test       lint, types, import contracts, tests (under 10 minutes)
# make test-slow  reproductions on real data
# make bench      measurements against peers
# make papers     the papers' tables and figures again, into bench/papers/RESULTS.md
PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin
PYTHON_FOUND := $(shell command -v $(PYTHON) || command -v python3)

.PHONY: run test test-slow bench papers lint clean

$(BIN)/.installed: pyproject.toml
	$(PYTHON_FOUND) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

run: $(BIN)/.installed
	$(BIN)/mustlink demo

lint: $(BIN)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest

test-slow: $(BIN)/.installed
	$(BIN)/pytest -m slow

bench: $(BIN)/.installed
	$(BIN)/python bench/million.py --all
	$(BIN)/python bench/mnist.py --columns ncut auto p
	$(BIN)/python bench/mnist_methods.py
	$(BIN)/python bench/graphs.py
	$(BIN)/python bench/images.py
	$(BIN)/python bench/methods.py --exact
	$(BIN)/python bench/pairs.py
	$(BIN)/python bench/mnist_pairs.py
	$(BIN)/python bench/lyapunov.py
	$(BIN)/python bench/subspace.py
	$(BIN)/python bench/fast_ge.py
	$(BIN)/python bench/grabcut.py
	$(BIN)/python bench/memory.py --budget --csp
	$(BIN)/python bench/memory.py --plan 4 5 6 7
	$(BIN)/python bench/partition.py
	$(BIN)/python bench/kills.py
	$(BIN)/python bench/batch.py
	$(BIN)/python bench/fuzz.py --mutations 5000
	$(BIN)/python bench/determinism.py

papers: $(BIN)/.installed
	$(BIN)/python -m bench.papers

clean:
	rm -rf $(VENV) demo-out .mypy_cache .ruff_cache .pytest_cache .hypothesis
