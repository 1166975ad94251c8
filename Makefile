# Two commands do everything: `make train` and `make test`. Both install what they need into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One worker per core; files in the order of testpaths, the longest first.
WORKERS := -n auto --dist loadfile --no-loadscope-reorder

# The lock file has the versions of one Python; others take the newest that pyproject.toml allows.
LOCK := requirements-dev.lock
CONSTRAINTS = $(shell $(PYTHON) -c 'import sys; print("--constraint $(LOCK)" if sys.version_info[:2] == (3, 11) else "")')

.PHONY: train test engines quick avx2 slow docs reliability lock clean

train: $(VENV)/.ready
	$(BIN)/trustax train mcpo --env-id Pendulum-v1 --total-timesteps 1000000 --num-seeds 2

test: $(VENV)/.ready
	$(BIN)/ruff check src tests benchmarks reliability examples docs
	$(BIN)/ruff format --check src tests benchmarks reliability examples docs
	@# Types are checked beside the first tests.
	$(BIN)/mypy & types=$$!; $(BIN)/python -m pytest $(WORKERS) -m "not slow and not engines" && wait $$types

# Sweeps on a real Ray cluster and through submitit, and runs in several processes; CI runs them after `make test`.
engines: $(VENV)/.ready
	$(BIN)/python -m pytest $(WORKERS) -m "engines and not slow"

quick: $(VENV)/.ready
	$(BIN)/python -m pytest $(WORKERS) -m "not slow and not pages and not engines and not docs"

# The arithmetic once more, as on a processor without AVX-512 and as XLA optimizes it for users.
avx2: export XLA_FLAGS := --xla_cpu_max_isa=AVX2 --xla_backend_optimization_level=3 \
	--xla_llvm_disable_expensive_passes=false --xla_cpu_use_fusion_emitters=true
avx2: $(VENV)/.ready
	$(BIN)/python -m pytest $(WORKERS) tests/ops tests/runtime/test_collect.py tests/algorithms/test_mcpo.py \
		tests/algorithms/test_mdpo.py tests/algorithms/test_vmpo.py tests/algorithms/test_ppo.py

slow: $(VENV)/.ready
	$(BIN)/python -m pytest -m slow

# The documentation site, with its tutorials executed: docs/_build/html/index.html
docs: $(VENV)/.ready
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html

# What docs/reliability.md promises, tried out; in less than 40 minutes on two cores.
reliability: $(VENV)/.ready
	$(BIN)/python -m reliability

# The versions that pip would install now. Needs Python 3.11.
lock:
	$(PYTHON) -m pip install --quiet --dry-run --ignore-installed --report - ".[dev]" | $(PYTHON) .ci/lock.py > $(LOCK).new
	mv $(LOCK).new $(LOCK)

clean:
	rm -rf docs/_build $(VENV) .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.ready: pyproject.toml $(LOCK)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(CONSTRAINTS) --editable ".[dev]"
	touch $@
