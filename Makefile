# `make demo` and `make test` are all a newcomer needs; both make the environment first.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

.PHONY: demo test test-slow lint types bench clean

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| (echo "maghub needs Python 3.11 or newer: make PYTHON=python3.11 ..." && exit 1)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable '.[all,test]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/maghub demo --out demo-out

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

bench: $(STAMP)
	for script in tests/benchmarks/bench_*.py; do echo "== $$script"; PYTHONPATH=. $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) demo-out build dist .pytest_cache .mypy_cache .ruff_cache
