# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests start hundreds of processes: none compiles modules that another has compiled.
export PYTHONDONTWRITEBYTECODE :=

# Tests wait for Spark and for disks, so three processes are quicker than two processors alone;
# tests/conftest.py says what stays in one, and what is first.
SIDE_BY_SIDE := --numprocesses 3 --no-loadscope-reorder
# Where all tests are of Spark, each process has a session.
SESSIONS := --numprocesses 2 --no-loadscope-reorder --dist loadfile

# Environments for other releases of what projseg runs on, and the tests that run in all of them.
OTHERS := .venvs
PYTHONS := 3.11 3.12 3.13
SPARK_RELEASES := 4.0 4.1 4.2 4.3
NEIGHBOURS := io.delta:delta-spark_2.13:4.0.0 io.delta:delta-storage:4.0.0 \
	org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0
TEST_TOOLS := datasketches duckdb hypothesis pytest pytest-timeout pytest-xdist
QUICK_TESTS := tests/cli tests/doors/test_duckdb_*.py tests/install/test_extras.py \
	tests/query/test_without_pandas.py tests/query/test_parameters.py tests/query/test_parsed_once.py \
	tests/query/test_table_writes.py tests/query/test_scan.py tests/table_layer/test_commit.py \
	tests/segment_format/test_round_trip.py tests/segment_format/test_spec.py \
	tests/segment_format/test_deletion_vector.py tests/kernels/test_roaring.py
DOORS := tests/benchmarks tests/cli tests/errors tests/install tests/query tests/query_pool \
	tests/spark tests/views
# Warnings of old or new releases of others are not ours to heed.
PYTEST_ELSEWHERE := bin/python -m pytest -o filterwarnings=default

.PHONY: demo demo-spark test check lint lines nightly nightly-files bench distributions release-check site clean
.PHONY: test-by-path test-minimums test-pythons test-spark-matrix test-launchers test-neighbours

# An editable build compiles nothing, so it needs none of the packages that a wheel's does, and
# modules are compiled as they are imported.
QUICK_INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile

demo: $(VENV)/installed-plain
	$(BIN)/projseg demo

demo-spark: $(VENV)/installed
	$(BIN)/projseg demo --spark

test: lint
	$(BIN)/pytest $(SIDE_BY_SIDE)

check: lint
	$(BIN)/pytest tests/house_style

lint: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Lines of product code in each room beside their budget.
lines:
	@$(PYTHON) tests/house_style/lines.py

# The night in parts, each for a machine of its own; tests/house_style finds a file that is in none.
# With a tenth of the random cases each part ends within 45 minutes; PROJSEG_NIGHTLY=1 draws all.
PROJSEG_NIGHTLY ?= 0.1
NIGHT_1 := tests/spark/test_[a-d]*.py
NIGHT_2 := tests/spark/test_[e-q]*.py
NIGHT_3 := tests/spark/test_[r-s]*.py
NIGHT_4 := tests/spark/test_[t-z]*.py
NIGHT_5 := tests/query/test_[a-i]*.py
NIGHT_6 := tests/query/test_[j-z]*.py
NIGHT_7 := tests/matching tests/algebra tests/aggregation tests/states
NIGHT_8 := tests/catalog tests/views tests/doors tests/page
NIGHT_9 := tests/table_layer tests/crash tests/object_stores tests/foreign
NIGHT_10 := tests/maintenance tests/writer tests/segment_format tests/independent tests/golden \
	tests/kernels tests/memory tests/query_pool tests/benchmarks
NIGHT_11 := tests/cli tests/docs tests/errors tests/house_style tests/install tests/launchers
NIGHTS := 1 2 3 4 5 6 7 8 9 10 11

nightly: $(NIGHTS:%=nightly-%) nightly-12 nightly-13 nightly-14 nightly-15

nightly-11: $(OTHERS)/connect/installed $(OTHERS)/neighbours/installed $(OTHERS)/pyspark-4.0 \
	$(OTHERS)/site/installed

$(NIGHTS:%=nightly-%): nightly-%: $(VENV)/installed-dev
	PROJSEG_NIGHTLY=$(PROJSEG_NIGHTLY) $(BIN)/pytest $(SIDE_BY_SIDE) -m "slow or not slow" --timeout 7200 $(NIGHT_$*)

nightly-12: $(VENV)/installed-dev
	$(BIN)/python -m tests.mutants

nightly-13: test-by-path

nightly-14: test-minimums test-pythons

# Parts 1 to 4 have the last release, which is that of $(VENV).
nightly-15: $(patsubst %,test-spark-%,$(filter-out $(lastword $(SPARK_RELEASES)),$(SPARK_RELEASES)))

# The files of the parts that run pytest.
nightly-files:
	@for place in $(foreach night,$(NIGHTS),$(NIGHT_$(night))); do \
		find $$place -name 'test_*.py'; done

# The doors by path, where no process can import a catalog's packages and no database answers; what
# lies below the doors imports nothing of a catalog, as tests/house_style proves. The cases are CI's.
test-by-path: $(VENV)/installed-dev
	PROJSEG_NIGHTLY= PYTHONPATH=tests/support/without_catalog PROJSEG_CATALOG=postgresql://nobody@127.0.0.1:1/none \
		$(BIN)/pytest $(SIDE_BY_SIDE) $(DOORS)

# The oldest releases that pyproject.toml allows.
test-minimums:
	$(PYTHON) -m venv --clear $(OTHERS)/minimums
	$(PYTHON) .ci/minimum_versions.py duckdb > $(OTHERS)/minimums/constraints.txt
	$(OTHERS)/minimums/bin/pip install --quiet --disable-pip-version-check \
		--constraint $(OTHERS)/minimums/constraints.txt --editable . $(TEST_TOOLS)
	$(OTHERS)/minimums/$(PYTEST_ELSEWHERE) $(QUICK_TESTS)

test-pythons: $(PYTHONS:%=test-python-%)

test-python-%:
	@python$* --version || { echo "python$* is not on this machine: not tried"; exit 0; }; \
	set -e; python$* -m venv --clear $(OTHERS)/python-$*; \
	$(OTHERS)/python-$*/bin/pip install --quiet --disable-pip-version-check \
		--editable . $(TEST_TOOLS); \
	$(OTHERS)/python-$*/$(PYTEST_ELSEWHERE) $(QUICK_TESTS)

test-spark-matrix: $(SPARK_RELEASES:%=test-spark-%)

test-spark-%:
	$(PYTHON) -m venv --clear $(OTHERS)/spark-$*
	$(OTHERS)/spark-$*/bin/pip install --quiet --disable-pip-version-check \
		--editable '.[stores,server]' 'pyspark==$*.*' $(TEST_TOOLS)
	PYSPARK_PYTHON=$(CURDIR)/$(OTHERS)/spark-$*/bin/python \
		$(OTHERS)/spark-$*/$(PYTEST_ELSEWHERE) $(SESSIONS) tests/spark

# Delta and Iceberg in one session with projseg, on a Spark that all three know.
test-neighbours: $(VENV)/installed-dev $(OTHERS)/neighbours/installed
	$(BIN)/pytest -m slow tests/launchers/test_neighbours.py \
		tests/launchers/test_neighbours_as_sources.py

$(OTHERS)/neighbours/installed: pyproject.toml
	$(PYTHON) -m venv --clear $(OTHERS)/neighbours
	$(OTHERS)/neighbours/bin/pip install --quiet --disable-pip-version-check \
		--editable . 'pyspark==4.0.1'
	for jar in $(NEIGHBOURS); do mvn --quiet --batch-mode dependency:copy -Dartifact=$$jar \
		-DoutputDirectory=$(CURDIR)/$(OTHERS)/neighbours/jars || exit 1; done
	touch $@

# Spark's SQL shell, the Thrift server, a cluster of two workers, and Connect, whose client has
# packages that projseg does without.
test-launchers: $(VENV)/installed-dev $(OTHERS)/connect/installed
	$(BIN)/pytest -m slow tests/launchers

$(OTHERS)/connect/installed:
	$(PYTHON) -m venv --clear $(OTHERS)/connect
	$(OTHERS)/connect/bin/pip install --quiet --disable-pip-version-check 'pyspark[connect]<4.4'
	touch $@

# A release's wheel and source distribution; the wheel has the jar for each Spark.
SPARKS := $(SPARK_RELEASES:%=$(OTHERS)/pyspark-%)
NO_SPACE :=
distributions: $(VENV)/installed-dev $(SPARKS)
	PROJSEG_SPARKS=$(subst $(NO_SPACE) ,:,$(abspath $(SPARKS))) $(BIN)/python -m build

release-check:
	rm -rf dist
	$(MAKE) distributions
	$(PYTHON) .ci/check_release.py dist

# PySpark alone, as `spark-submit` of a cluster has it; the name appears when it is whole.
$(OTHERS)/pyspark-%: | $(VENV)/bin/python
	rm -rf $@.part
	$(BIN)/pip install --quiet --disable-pip-version-check --target $@.part 'pyspark==$*.*'
	mv $@.part $@

# The documentation, in build/site; a dead link or anchor fails.
site: $(OTHERS)/site/installed
	$(PYTHON) docs/make_site.py build/site-pages
	$(OTHERS)/site/bin/zensical build --clean --strict

$(OTHERS)/site/installed:
	$(PYTHON) -m venv --clear $(OTHERS)/site
	$(OTHERS)/site/bin/pip install --quiet --disable-pip-version-check --upgrade pip
	$(OTHERS)/site/bin/pip install --quiet --disable-pip-version-check 'zensical>=0.0.73'
	touch $@

bench: $(VENV)/installed-bench
	$(BIN)/projseg bench run

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed-plain: pyproject.toml | $(VENV)/bin/python
	@echo "installing projseg and its packages into $(VENV)"
	@$(QUICK_INSTALL) 'setuptools>=77'
	@$(QUICK_INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[spark]'
	touch $@ $(VENV)/installed-plain

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(VENV)/installed $(VENV)/installed-plain

$(VENV)/installed-bench: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[bench,spark]'
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) $(OTHERS)
