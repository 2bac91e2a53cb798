# Every target does its own set-up. PYTHON names the interpreter (3.11 to 3.13) that makes the environment.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Compiled modules are kept: otherwise every process would compile torch anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: env book test coverage lint serve bench lock clean

env: $(VENV)/.ready

$(VENV)/.ready: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else f"Python 3.11 to 3.13 is needed, $(PYTHON) is {v[0]}.{v[1]}: call make with PYTHON=/path/to/python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

book: env
	$(BIN)/python book/build.py

test: env
	$(BIN)/python -m pytest -n 2 --dist loadfile

coverage: env
	$(BIN)/python -m pytest -n 2 --dist loadfile --cov=rc_utils --cov-report=term:skip-covered --cov-fail-under=90

lint: env
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy

serve: book
	$(BIN)/python -m http.server --directory book/_build/html 8000

bench: env
	$(BIN)/python -m benchmarks

lock:
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header requirements.in -o requirements.txt

clean:
	rm -rf book/_build book/notebooks
