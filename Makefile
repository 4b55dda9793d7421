# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo demo-spark test check nightly bench clean

demo: $(VENV)/installed
	$(BIN)/projseg demo

demo-spark: $(VENV)/installed
	$(BIN)/projseg demo --spark

test: $(VENV)/installed-dev check
	$(BIN)/pytest

check: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest tests/house_style

nightly: $(VENV)/installed-dev
	PROJSEG_NIGHTLY=1 $(BIN)/pytest -m "slow or not slow" --timeout 7200

bench: $(VENV)/installed-bench
	$(BIN)/projseg bench run

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[spark]'
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(VENV)/installed

$(VENV)/installed-bench: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[bench,spark]'
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV)
