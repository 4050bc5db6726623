"""Settings of the server, from ``MODSERVE_*`` environment variables. Nothing is read at import."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_network
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.errors.quoting import did_you_mean
from app.logs import LogFormat

__all__ = ["Settings", "unknown_variables"]

_MIB = 2**20
_PREFIX = "MODSERVE_"
_DEVICE = re.compile(r"(cpu|gpu)\([0-9]{1,4}\)")
_HOST = re.compile(r"\*|(\*\.)?[A-Za-z0-9_.-]+|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*")
_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#@\s]+")
_ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_OWN_PATHS = ("v1", "v2", "livez", "readyz", "metrics", "docs", "redoc", "openapi.json")
_OF_CLIENTS = ("MODSERVE_URL", "MODSERVE_OLD_NUMPY")
_KUBERNETES = re.compile(_PREFIX + r"(SERVICE|PORT)_.+")
"""Variables that Kubernetes sets in containers beside a Service named modserve."""


class Settings(BaseSettings):
    """The configuration of a server. ``Settings()`` reads the environment; keywords override it."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=8000, ge=0, le=65535)
    """Port to listen on; 0 chooses a free one."""
    root_path: str = ""
    """Sub-path that a proxy serves the server under, ``/models``; it works with and without."""
    allowed_hosts: tuple[str, ...] = ()
    """Further host names that clients may use for the server; JSON."""
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    """Addresses and networks of proxies whose ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are
    trusted, such as ``10.0.0.0/8``; JSON.
    """
    allowed_origins: tuple[str, ...] = ()
    """Origins of other sites whose pages may send requests, ``https://lab.example``; JSON."""
    tls_cert: Path | None = None
    """Certificate chain in PEM; with it the server speaks only HTTPS."""
    tls_key: Path | None = None
    """Its private key in PEM; None if it is in the certificate's file."""
    api_key: SecretStr | None = None
    """An admin key, as ``modserve keys generate`` prints one; never written to disk."""
    api_key_file: Path | None = None
    """A file with such a key, for example a mounted secret; use one or the other."""
    data_dir: Path = Path("var")
    """Folder of everything durable: the database, datasets, checkpoints."""
    database_url: str | None = None
    """SQLAlchemy URL of the database; None for SQLite in ``data_dir``."""
    devices: tuple[str, ...] = Field(default=("cpu(0)",), min_length=1)
    """Devices, with one executor each; JSON: ``["gpu(0)", "gpu(1)"]``. ``gpu`` is the first one."""
    executor_form: Literal["process", "in_process"] = "process"
    """Where executors run: each in a process of its own, or inside the server (for tests)."""
    threads: int | None = Field(default=None, ge=0, le=1024)
    """Threads of BLAS and OpenMP in each executor; None or 0 divides all processors but one, within
    the CPU affinity and the cgroup's quota.
    """
    math: Literal["float32", "bfloat16"] = "float32"
    """Precision of predictions' products; bfloat16 is faster, less exact, and needs CPU support."""
    memory_budget: int | None = Field(default=None, ge=1)
    """Bytes that the modules of a device may use before the least recently used are evicted; None
    takes 70% of the memory of the device, the container or the machine.
    """
    jobs_per_executor: int = Field(default=2, ge=1)
    """Jobs, of different modules, that one executor runs alternately."""
    max_body_bytes: int = Field(default=64 * _MIB, ge=1024)
    """Largest request body, except for uploads of datasets and checkpoints."""
    max_bodies_bytes: int = Field(default=1024 * _MIB, ge=1024)
    """Total size of the bodies held in memory for all current requests."""
    max_answers_bytes: int | None = Field(default=None, ge=_MIB)
    """Total size of the tensors in answers under way, half of which one answer may have; None takes
    20% of the memory of the container or the machine, and at most 4 GiB.
    """
    max_json_bytes: int = Field(default=256 * 1024, ge=1024)
    """Largest JSON body without tensors and symbols."""
    decoder_processes: int = Field(default=2, ge=1, le=64)
    """Most processes that decode large JSON bodies; they start when first needed."""
    decoder_memory_bytes: int = Field(default=1024 * _MIB, ge=16 * _MIB)
    """Memory that a decoder process may use for one body."""
    decoder_seconds: int = Field(default=30, ge=1, le=3600)
    """Time that a decoder process may take for one body."""
    max_header_bytes: int = Field(default=64 * 1024, ge=1024, le=_MIB)
    """Largest request target and header fields, together."""
    header_seconds: float = Field(default=20.0, gt=0)
    """Time within which they must arrive."""
    body_idle_seconds: float = Field(default=30.0, gt=0)
    """How long a body may pause."""
    min_body_rate: int = Field(default=1024, ge=0)
    """Bytes per second at which a body must arrive, once ``body_idle_seconds`` have passed."""
    write_idle_seconds: float = Field(default=60.0, gt=0)
    """How long a client may pause in reading its response."""
    max_connections: int = Field(default=1000, ge=1)
    """Most simultaneous connections, not counting followers of events."""
    max_followers: int = Field(default=2000, ge=1)
    """Most simultaneous followers of events."""
    max_predictions: int = Field(default=512, ge=1)
    """Most simultaneous predictions of one module; more are refused with 503."""
    max_call_seconds: float = Field(default=120.0, gt=0)
    """How long one call, or one batch of predictions, may hold an executor. Then the executor is
    ended and restored, and the call is answered with 504.
    """
    max_graph_nodes: int = Field(default=100_000, ge=1)
    """Most nodes of all symbols of a new module together."""
    max_unsent_bytes: int = Field(default=1024 * _MIB, ge=_MIB)
    """Unread responses in memory; beyond it, clients that have stopped reading are dropped."""
    max_dataset_bytes: int = Field(default=16 * 1024 * _MIB, ge=1024)
    """Largest dataset file, and largest total size of its unpacked arrays."""
    dataset_folders: tuple[Path, ...] = ()
    """Folders whose files may become datasets in place; JSON: ``["/data"]``."""
    max_image_pixels: int = Field(default=32_000_000, ge=1)
    """Most pixels of an image to decode."""
    models_dir: Path | None = None
    """Folder of models to serve, with one folder for each; ``modserve serve --models``."""
    models_poll_seconds: float = Field(default=5.0, ge=0, le=86400)
    """How often the folder is checked for changes; 0 checks only on request."""
    max_checkpoint_bytes: int = Field(default=16 * 1024 * _MIB, ge=1024)
    """Largest checkpoint, all of its files together."""
    lease_seconds: float = Field(default=30.0, gt=0, le=86400)
    """A running job whose server has not renewed its lease for this long is given to another."""
    job_max_attempts: int = Field(default=3, ge=1)
    """A job fails after being lost this many times in a row without a new checkpoint."""
    keep_checkpoints: int | None = Field(default=None, ge=1)
    """Newest checkpoints kept for each module; None keeps all."""
    keep_progress_events: int = Field(default=500, ge=1)
    """Progress reports and log lines kept for each job; metrics and transitions are always kept."""
    keep_jobs: int | None = Field(default=10_000, ge=1)
    """Newest finished jobs kept; None (``null``) keeps all. Checkpoints are always kept."""
    keep_job_days: float | None = Field(default=None, gt=0)
    """Finished jobs are deleted after this many days; None keeps them."""
    keep_events: int = Field(default=10_000, ge=1)
    """Newest events of modules and executors kept; those of jobs are deleted with their jobs."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe level that is logged."""
    log_format: LogFormat = "text"
    """Format of log lines: text, or JSON with the fields of each line by name."""
    drain_seconds: int = Field(default=10, ge=0, le=3600)
    """How long current requests may take to finish when the server is stopped."""

    @field_validator("threads")
    @classmethod
    def _without_zero(cls, threads: int | None) -> int | None:
        return threads or None

    @field_validator("devices")
    @classmethod
    def _check_devices(cls, devices: tuple[str, ...]) -> tuple[str, ...]:
        devices = tuple(f"{one}(0)" if one in ("cpu", "gpu") else one for one in devices)
        for device in devices:
            if not _DEVICE.fullmatch(device):
                raise ValueError(f"got {device!r}, expected a device like cpu(0) or gpu(1)")
            if devices.count(device) > 1:
                raise ValueError(f"got {device!r} twice, expected each device once")
        return devices

    @field_validator("root_path")
    @classmethod
    def _check_root_path(cls, path: str) -> str:
        if path and not _ROOT_PATH.fullmatch(path):
            raise ValueError(
                f"got {path!r}, expected a path like /models, without a trailing slash"
            )
        if path.partition("/")[2].partition("/")[0] in _OWN_PATHS:
            raise ValueError(
                f"got {path!r}, expected a path whose first part is not one of the server's own"
            )
        return path

    @field_validator("allowed_hosts")
    @classmethod
    def _check_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            if not _HOST.fullmatch(host):
                raise ValueError(f"got {host!r}, expected a host without a port, *.NAME or *")
        return hosts

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                ip_network(proxy)
            except ValueError as error:
                raise ValueError(
                    f"got {proxy!r}, expected an address or a network like 10.0.0.0/8: {error}"
                ) from None
        return proxies

    @field_validator("allowed_origins")
    @classmethod
    def _check_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"got {origin!r}, expected SCHEME://HOST[:PORT], null or *")
        return origins

    @field_validator("api_key", "api_key_file", mode="before")
    @classmethod
    def _without_empty(cls, given: object) -> object:
        """Treat a variable that is set but empty, as Compose does, as no key."""
        return None if given == "" else given

    @property
    def api_key_text(self) -> str | None:
        """The key itself, if one is given."""
        return None if self.api_key is None else self.api_key.get_secret_value()

    @property
    def store_url(self) -> str:
        """The database URL, with the default filled in."""
        from sqlalchemy import URL  # here, since it is slow to import

        file = self.data_dir.absolute() / "modserve.db"
        return self.database_url or URL.create("sqlite", database=str(file)).render_as_string()


def unknown_variables(environment: Iterable[str]) -> dict[str, str]:
    """Return variables that look like settings but are not, each with a message about it."""
    known = [f"{_PREFIX}{name.upper()}" for name in Settings.model_fields]
    return {
        name: f"{name} is not a setting and is ignored{did_you_mean(name.upper(), known)}"
        for name in environment
        if name.upper().startswith(_PREFIX)
        and name.upper() not in (*known, *_OF_CLIENTS)
        and not _KUBERNETES.fullmatch(name)
    }
