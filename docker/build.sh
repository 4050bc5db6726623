#!/bin/sh
# Builds modserve's image with Docker or buildah, whichever works here; options go on to it.
# VARIANT, BASE_IMAGE and IMAGE say what to build, from what, and what to call it. Where buildah has
# no rights to mount, STORAGE_DRIVER=vfs and BUILDAH_ISOLATION=chroot make it do without.
set -eu
cd "$(dirname "$0")/.."
variant=${VARIANT:-cpu}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
revision=$(git describe --always --dirty --abbrev=40 --exclude '*' 2> /dev/null || echo unknown)
set -- --file docker/Dockerfile --tag "${IMAGE:-modserve:$variant}" \
    --build-arg "VARIANT=$variant" --build-arg "VERSION=$version" --build-arg "REVISION=$revision" \
    ${BASE_IMAGE:+--build-arg "BASE_IMAGE=$BASE_IMAGE"} "$@"
if docker info > /dev/null 2>&1; then
    exec docker build "$@" .
elif command -v buildah > /dev/null; then
    # Without the format the health check would be left out.
    exec buildah build --format docker --layers "$@" .
fi
echo "make image: neither a Docker engine nor buildah was found; Debian, Ubuntu: apt-get install buildah" >&2
exit 1
