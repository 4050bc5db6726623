"""Executors as clients see them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from app.api.v1.fact_views import MemoryView
from app.domain.job import JobKind
from app.domain.module import ModuleKind, Stage
from app.link.supervisor import ExecutorState

__all__ = ["ExecutorView"]


class DeviceMemoryView(BaseModel):
    """Bytes of a device's memory."""

    used: int = Field(description="Bytes used by all processes.")
    total: int = Field(description="Total size in bytes.")


class BudgetView(BaseModel):
    """Bytes that modules may use before the least recently used ones are evicted."""

    bytes: int = Field(description="Maximum for all modules.")
    used: int = Field(description="Bytes in use by modules.")
    other: int = Field(
        description="Private bytes of the process beyond those and what it began with: data of "
        "requests and jobs, and what libraries keep."
    )


class ResidentView(BaseModel):
    """A module on a device."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(description="Name of the module.", examples=["lenet"])
    kind: ModuleKind = Field(description="Its class in the Module family.")
    stage: Stage = Field(description="Stage of its preparation.")
    generation: int = Field(description="Changes whenever state in memory was lost.")
    job_id: int | None = Field(description="The job that works on it; null for none.")
    is_replica: bool = Field(
        default=False, description="Whether it answers predictions beside the module's executor."
    )
    memory: MemoryView = Field(description="Memory that it uses.")


class RunningJobView(BaseModel):
    """A job on an executor."""

    model_config = ConfigDict(extra="allow")

    job_id: int = Field(description="Number of the job.")
    attempt: int = Field(description="Number of attempts so far.")
    kind: JobKind = Field(description="Kind of the job.")
    module: str = Field(description="Module on which it works.", examples=["lenet"])


class ExecutorView(BaseModel):
    """An executor."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(description="Name of its device.", examples=["cpu(0)"])
    alive: bool = Field(description="Whether it responds.")
    state: ExecutorState | None = Field(
        default=None,
        examples=["ready"],
        description="Null for an executor inside the server's process.",
    )
    restarts: int | None = Field(default=None, description="How often it was restarted.")
    last_end: str | None = Field(default=None, description="Why its previous process ended.")
    pid: int | None = Field(default=None, description="Id of its process.")
    doing: str | None = Field(default=None, description="What it is working on.")
    busy_seconds: float | None = Field(
        default=None, description="How long it has been working on that."
    )
    rss_bytes: int | None = Field(default=None, description="Resident memory of its process.")
    calls_under_way: int | None = Field(
        default=None, description="Number of calls that wait for their answer."
    )
    request_bytes: int | None = Field(
        default=None, description="Shared memory used by its requests."
    )
    device: str | None = Field(
        default=None,
        description="Name that the executor reports for its device.",
        examples=["cpu(0)"],
    )
    available_bytes: int | None = Field(default=None, description="Free memory of the machine.")
    device_memory: DeviceMemoryView | None = Field(
        default=None, description="Memory of a device other than a CPU; null for a CPU."
    )
    numpy: str | None = Field(default=None, description="Version of NumPy.", examples=["2.3.4"])
    memory_budget: BudgetView | None = Field(
        default=None, description="Memory budget of its modules."
    )
    modules: list[ResidentView] = Field(default=[], description="Modules on the device.")
    jobs: list[RunningJobView] = Field(default=[], description="Jobs that it runs.")
