# Everything runs in .venv, which the first target that needs it makes.
PYTHON ?= python3
# How many processes run the tests; 0 runs them in one, where a debugger can be used.
JOBS   ?= 2
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Names no registry, and holds for every Python that modserve runs on.
LOCK   := UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
          --generate-hashes --no-emit-index-url --output-file

# A machine with a GPU has its own Python with CuPy; what that lacks comes from $(GPU_WHEELS).
GPU_PYTHON         ?= $(PYTHON)
GPU_PYTHON_VERSION ?= 3.12
GPU_WHEELS         := .gpu-wheels
GPU_OUT            ?= $(or $(OUT),var/gpu)
GPU_SITE           := var/gpu/site
GPU_INSTALL = ls $(GPU_WHEELS)/*.whl >/dev/null 2>&1 || exit 0; $(GPU_PYTHON) -m pip install --quiet \
              --disable-pip-version-check --no-index --no-deps --upgrade --target $(GPU_SITE) $(GPU_WHEELS)/*.whl
GPU_RUN     = ($(GPU_INSTALL)) && PYTHONPATH="$(CURDIR)/$(GPU_SITE):$(CURDIR)/tests:$(CURDIR):$$PYTHONPATH" $(GPU_PYTHON)

.DEFAULT_GOAL := help
.PHONY: help install demo test soak lint types openapi dashboard bench \
        gpu-wheels gpu-first gpu-test gpu-facts image image-test lock clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Make the environment and install modserve into it

$(STAMP): pyproject.toml hatch_build.py $(wildcard core/kernels/native/*.[ch])
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing modserve and its test tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@$(BIN)/python -m compileall -q app core
	@touch $(STAMP)

demo: $(STAMP) ## Train LeNet on MNIST digits and serve it (ARGS=--once ends by itself)
	@$(BIN)/modserve demo $(ARGS)

test: $(STAMP) ## Run the whole test suite
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

soak: $(STAMP) ## Run the endurance and chaos tests (an hour)
	$(BIN)/python -m pytest -m soak $(ARGS)

lint: $(STAMP) ## Check style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

openapi: $(STAMP) ## Write openapi/openapi.json from the application
	$(BIN)/modserve openapi openapi/openapi.json

dashboard: ## Build app/static from app/dashboard; needs Node 20
	cd app/dashboard && npm ci --silent && npm run build

bench: $(STAMP) ## Time training steps and predictions
	$(BIN)/modserve bench $(ARGS)

gpu-wheels: ## Fetch what a bare machine with a GPU lacks for the next two, to carry along (.gpu-wheels)
	@rm -rf $(GPU_WHEELS) && mkdir $(GPU_WHEELS)
	$(PYTHON) -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
	    --python-version $(GPU_PYTHON_VERSION) --implementation cp --platform manylinux_2_28_x86_64 \
	    --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
	    --dest $(GPU_WHEELS) pytest-asyncio typing-extensions "nvidia-cudnn-frontend>=1.28,<1.29" "nvmath-python>=1.0,<2"

gpu-first: ## Ask a GPU what only a GPU can tell: plans, cubins, ceilings, PyTorch's times, faults (GPU_OUT=FOLDER)
	@$(GPU_RUN) -m hardware.gpu_first --report $(GPU_OUT)/gpu-first.jsonl $(ARGS)

gpu-test: ## Run everything marked gpu; needs a GPU, CuPy and pytest, no make install (GPU_OUT=FOLDER)
	@$(GPU_RUN) -m hardware.gpu_test --report $(GPU_OUT)/gpu-test.jsonl $(ARGS)

gpu-facts: ## Ask cuBLASLt, cuDNN and CuPy what they take on a GPU, captured too (GPU_OUT=FOLDER)
	@$(GPU_RUN) -m hardware.gpu_facts --report $(GPU_OUT)/gpu-facts.jsonl $(ARGS)

image: ## Build the image with docker or buildah (VARIANT=gpu, BASE_IMAGE=..., IMAGE=NAME:TAG)
	@docker/build.sh

image-test: $(STAMP) ## Build the image, run it and kill it (root; Debian's buildah podman runc mmdebstrap)
	$(BIN)/python -m pytest -m image -s tests/docker/test_image.py $(ARGS)

lock: $(STAMP) ## Renew the locked dependencies of the images, docker/requirements-*.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
	    | $(LOCK) docker/requirements-build.txt -
	@$(LOCK) docker/requirements-cpu.txt --extra postgres --extra onnx pyproject.toml
	@$(LOCK) docker/requirements-gpu.txt --extra postgres --extra onnx --extra gpu pyproject.toml

clean: ## Remove the environment and all caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
