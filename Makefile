# make demo    train SCHED2 for a minute and write runs/demo/report.html
# make test    the default test suite        make lint    ruff: rules and formatting
# make test TURN=today  the default suite and those whose turn it is in one go, as CI does
# make test-extended  the tests that tests/extended.py names
# make test-turn  extended and slow tests whose turn it is
# make test-seconds  measure these, so that days take alike long (tests/seconds.json)
# make test-properties  properties with fresh examples; SEED=N repeats a run
# make test-all  all of them and the slow ones, everything compiled with all optimisations
# make types   mypy                          make docs    the documentation, docs/_build/html
# make venv    only create and fill $(VENV)
# make clean   remove what these targets made (not runs/)
#
# PYTHON=/path/to/python chooses the interpreter (3.11 or newer), VENV=dir the environment.

VENV ?= .venv
PYTHON ?=
CANDIDATES = $(if $(PYTHON),"$(PYTHON)",python3.12 python3.11 python3.13 python3 python)
BIN = $(VENV)/bin
comma := ,
DEMO_OUT ?= runs/demo
SEED := $(or $(SEED),$(shell date +%s))
PROPERTIES = $(shell grep -rl "^from hypothesis import" --include="test_*.py" tests)

.DEFAULT_GOAL := help
# Without what Python has compiled every start of a process takes eight seconds longer.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo test test-extended test-turn test-seconds test-properties test-all lint types docs venv dev clean
# A failed recipe must not leave its stamp behind.
.DELETE_ON_ERROR:

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.stamp-run
	$(BIN)/jaxsched demo --out $(DEMO_OUT)

test: $(VENV)/.stamp-dev
	$(BIN)/python -m pytest $(if $(TURN),--turn,-m "not slow and not extended") \
		-n 2 --dist loadfile $(PYTEST_ARGS)

test-extended: $(VENV)/.stamp-dev
	$(BIN)/python -m pytest -m "not slow and extended" -n 2 --dist loadfile $(PYTEST_ARGS)

test-turn: $(VENV)/.stamp-dev
	$(BIN)/python -m pytest -m "slow or extended" --turn -n 2 --dist loadfile $(PYTEST_ARGS)

test-seconds: $(VENV)/.stamp-dev
	mkdir -p .cache && rm -f .cache/seconds.jsonl
	$(BIN)/python -m pytest -m "slow or extended" -n 2 --dist loadfile \
		--seconds .cache/seconds.jsonl $(PYTEST_ARGS)
	$(BIN)/python -m tests.turns --write .cache/seconds.jsonl

test-properties: $(VENV)/.stamp-dev
	$(BIN)/python -m pytest -m "hypothesis and not slow" -n 2 --dist loadfile $(PROPERTIES) \
	  --hypothesis-profile=fresh --hypothesis-seed=$(SEED) $(PYTEST_ARGS)
	@echo "these were the examples of SEED=$(SEED)"

test-all: $(VENV)/.stamp-dev
	JAX_DISABLE_MOST_OPTIMIZATIONS=0 $(BIN)/python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

lint: $(VENV)/.stamp-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.stamp-dev
	$(BIN)/mypy

# Without network; a warning is an error.
docs: $(VENV)/.stamp-docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

venv: $(VENV)/.stamp-run

dev: $(VENV)/.stamp-dev

clean:
	rm -rf docs/_build docs/reference $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# The environment itself, from the first interpreter that is new enough and can make one.
$(VENV)/.stamp-venv:
	@why="no Python 3.11 or newer was found (tried:$(subst ",,$(CANDIDATES:%= %)))"; \
	for python in $(CANDIDATES); do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then \
	    why="$$python has no venv module; on Debian and Ubuntu: apt-get install python3-venv"; \
	    continue; \
	  fi; \
	  echo "Creating $(VENV) with $$("$$python" --version)"; \
	  rm -rf "$(VENV)" && "$$python" -m venv "$(VENV)" && touch $@ && exit 0; \
	  why="$$python could not create $(VENV)"; \
	done; \
	echo "error: $$why" >&2; exit 1

# Python compiles what is imported, which is a small part of what is installed (half of the time).
# Python 3.11 has pins of its own: jax 0.10 is the last release for it.
define install
	@pins=constraints/$$($(BIN)/python -c 'import sys; print("py311" if sys.version_info < (3, 12) else "py312")').txt; \
	echo "Installing jaxsched$(1) into $(VENV) with $$pins (some minutes the first time)"; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c $$pins -e '.$(1)'
	@touch $@
endef

$(VENV)/.stamp-run: $(VENV)/.stamp-venv pyproject.toml $(wildcard constraints/*.txt)
	$(call install,)

$(VENV)/.stamp-dev: $(VENV)/.stamp-venv pyproject.toml $(wildcard constraints/*.txt)
	$(call install,[dev])
	@touch $(VENV)/.stamp-run

# The tests' packages too, so that what the site makes of the code can be tested.
$(VENV)/.stamp-docs: $(VENV)/.stamp-venv pyproject.toml $(wildcard constraints/*.txt)
	$(call install,[dev$(comma)docs])
	@touch $(VENV)/.stamp-run $(VENV)/.stamp-dev
