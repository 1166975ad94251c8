# Two commands do everything: `make train` and `make test`. Both install what they need into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: train test quick slow clean

train: $(VENV)/.ready
	$(BIN)/trustax train mcpo --env-id Pendulum-v1 --total-timesteps 1000000 --num-seeds 2

test: $(VENV)/.ready
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --dist loadfile

quick: $(VENV)/.ready
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow and not pages"

slow: $(VENV)/.ready
	$(BIN)/python -m pytest -m slow

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@
