# modserve on NVIDIA GPUs. Build from the project's root, run with the NVIDIA container toolkit:
#   docker build --file docker/gpu.Dockerfile --tag modserve:gpu .
#   docker run --gpus all --volume modserve-data:/var/lib/modserve --publish 127.0.0.1:8000:8000 modserve:gpu
FROM python:3.11-slim-bookworm AS build
# The compiler of the engine's C kernels, in the distribution's version.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY app app
COPY core core
RUN python -m venv /opt/modserve \
    && /opt/modserve/bin/pip install --no-cache-dir ".[gpu]"

FROM python:3.11-slim-bookworm
# The OpenMP runtime that oneDNN's kernels need, in the distribution's version.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 1000 modserve \
    && useradd --uid 1000 --gid modserve --create-home modserve \
    && install --directory --owner=modserve --group=modserve /var/lib/modserve
COPY --from=build /opt/modserve /opt/modserve
ENV PATH=/opt/modserve/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    MODSERVE_HOST=0.0.0.0 \
    MODSERVE_PORT=8000 \
    MODSERVE_DEVICES="[\"gpu(0)\"]" \
    MODSERVE_DATA_DIR=/var/lib/modserve
USER 1000:1000
VOLUME /var/lib/modserve
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['MODSERVE_PORT'] + '/readyz')"]
# Inside a container every address is the outside, so it serves nobody before there is a key:
#   docker run --rm --volume modserve-data:/var/lib/modserve modserve:gpu modserve keys add --name NAME --scope admin
CMD ["modserve", "serve"]
