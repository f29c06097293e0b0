# Every target sets itself up, given only Python 3.11 or later with venv and pip.
PYTHON ?= python3

# Spark is large: it is installed only where DISCREET_REQUIRE names it.
LOCK := $(if $(findstring spark,$(DISCREET_REQUIRE)),spark,dev)
READY := .venv/ready-$(LOCK)
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-build-isolation
PYTEST := .venv/bin/python -m pytest -n auto --dist loadgroup

# Where it is set, as in many containers, every process that a test starts would compile all of discreet anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check format lint types docs papers soak chance mutants bench lock clean

demo: .venv-demo/ready
	.venv-demo/bin/python -m demo

test: $(READY)
	$(PYTEST)

# The tests come last, so that their closing line does too. The repository's own checks are in tests/repository/test_repo.py.
check: format lint types docs test

format: $(READY)
	.venv/bin/ruff format --check .

lint: $(READY)
	.venv/bin/ruff check .

types: $(READY)
	.venv/bin/mypy

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build

# The tables and figures of the documents, beside what is printed. `make papers TABLE=001-3`: only a part.
papers: $(READY)
	.venv/bin/python -m papers $(TABLE)

soak: $(READY)
	$(PYTEST) -m "soak or hypothesis" --hypothesis-profile soak

# All tests that sample, 50 times over. `make chance MORE="--seeds --times 10"`: with other seeds each time.
chance: $(READY)
	.venv/bin/python -m tests.support.repeat_sampling $(MORE)

mutants: $(READY)
	.venv/bin/python -m tests.mutants

bench: $(READY)
	.venv/bin/python -m benchmarks
	.venv/bin/python -m benchmarks.service --timing 10000

# Keeps the pinned versions that still fit; to move to the newest, delete locks/*.txt first.
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python $(PIP_INSTALL) uv
	$(COMPILE) --output-file locks/base.txt
	$(COMPILE) --output-file locks/dev.txt --constraint locks/base.txt --extra accounting --group dev
	$(COMPILE) --output-file locks/spark.txt --constraint locks/dev.txt --extra accounting --group dev --extra spark

	for peer in diffprivlib opendp python-dp smartnoise-sql tumult anjana pycanon; do \
		$(PIN) benchmarks/peers/$$peer.in --output-file benchmarks/peers/$$peer.txt || exit 1; done
	$(PIN) benchmarks/peers/smartnoise-synth.in --override benchmarks/peers/smartnoise-synth.without --output-file benchmarks/peers/smartnoise-synth.txt

PIN = .venv-lock/bin/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 \
	--no-emit-index-url --no-annotate --custom-compile-command "make lock"
COMPILE = $(PIN) pyproject.toml --group build --extra pictures --extra service --extra postgres

clean:
	rm -rf .venv .venv-demo .venv-lock .venv-peers .hypothesis .mypy_cache .pytest_cache .ruff_cache .coverage build dist src/*.egg-info demo/work demo/index.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A changed lock makes its environment anew; a changed pyproject.toml only installs the package again.
.venv/ready-$(LOCK): pyproject.toml .venv/locked-$(LOCK)
	.venv/bin/python $(PIP_INSTALL) --no-deps --editable .
	touch $@

.venv-demo/ready: pyproject.toml .venv-demo/locked
	.venv-demo/bin/python $(PIP_INSTALL) --no-deps --editable .
	touch $@

.venv/locked-dev: locks/dev.txt
	$(PYTHON) -m venv --clear .venv
	.venv/bin/python $(PIP_INSTALL) --require-hashes --requirement locks/dev.txt
	touch $@

.venv/locked-spark: locks/spark.txt .venv/locked-dev
	.venv/bin/python $(PIP_INSTALL) --require-hashes --requirement locks/spark.txt
	touch $@

.venv-demo/locked: locks/base.txt
	$(PYTHON) -m venv --clear .venv-demo
	.venv-demo/bin/python $(PIP_INSTALL) --require-hashes --requirement locks/base.txt
	touch $@
