"""What the device, its driver and the libraries say of themselves."""

from __future__ import annotations

import json
from importlib.metadata import distributions
from typing import Any


def plain(value: Any) -> Any:
    """Return a value that JSON has."""
    if isinstance(value, bytes):
        return value.decode(errors="replace").rstrip("\0")
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value if isinstance(value, (int, float, str)) else str(value)


def main() -> None:
    """Print the properties, and what cuDNN serializes of them for plans without a device."""
    import cupy

    found = cupy.cuda.runtime.getDeviceProperties(0)
    print(json.dumps({"device": {name: plain(value) for name, value in found.items()}}))
    runtime = cupy.cuda.runtime
    versions = {"driver": runtime.driverGetVersion(), "runtime": runtime.runtimeGetVersion()}
    wanted = ("cupy", "cuda", "cudnn", "nvidia", "numpy", "torch", "nvmath")
    packages = {
        str(one.metadata["Name"]): one.version
        for one in distributions()
        if any(part in str(one.metadata["Name"]).lower() for part in wanted)
    }
    print(json.dumps({"versions": versions, "packages": packages}))
    import cudnn

    print(json.dumps({"cudnn": cudnn.backend_version(), "front end": cudnn.__version__}))
    properties = cudnn.create_device_properties(0)
    print(json.dumps({"serialized": plain(properties.serialize())}))


if __name__ == "__main__":
    main()
