# Two commands do everything: `make train` and `make test`. Both install what they need into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: train test quick avx2 slow clean

train: $(VENV)/.ready
	$(BIN)/trustax train mcpo --env-id Pendulum-v1 --total-timesteps 1000000 --num-seeds 2

test: $(VENV)/.ready
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --dist loadfile

quick: $(VENV)/.ready
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow and not pages and not engines"

# The arithmetic once more, as on a processor without AVX-512 and as XLA optimizes it for users.
avx2: export XLA_FLAGS := --xla_cpu_max_isa=AVX2 --xla_backend_optimization_level=3 \
	--xla_llvm_disable_expensive_passes=false --xla_cpu_use_fusion_emitters=true
avx2: $(VENV)/.ready
	$(BIN)/python -m pytest -n auto --dist loadfile tests/ops tests/runtime/test_collect.py tests/algorithms/test_mcpo.py \
		tests/algorithms/test_mdpo.py tests/algorithms/test_vmpo.py tests/algorithms/test_ppo.py

slow: $(VENV)/.ready
	$(BIN)/python -m pytest -m slow

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@
