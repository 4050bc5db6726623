"""What clients get to see of executors."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from app.api.fact_views import MemoryView
from app.domain.job import JobKind
from app.domain.module import ModuleKind, Stage
from app.link.supervisor import ExecutorState

__all__ = ["ExecutorView"]


class DeviceMemoryView(BaseModel):
    """Bytes of a device's memory."""

    used: int = Field(description="By whomever.")
    total: int = Field(description="All there is.")


class BudgetView(BaseModel):
    """Bytes that modules may take before those idle for the longest time are put away."""

    bytes: int = Field(description="What they may take.")
    used: int = Field(description="What they take.")


class ResidentView(BaseModel):
    """A module on a device."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(description="Of the module.", examples=["lenet"])
    kind: ModuleKind = Field(description="Its class in the Module family.")
    stage: Stage = Field(description="How far it has come.")
    generation: int = Field(description="Changes whenever state in memory was lost.")
    job_id: int | None = Field(description="The job that works on it; null for none.")
    is_replica: bool = Field(
        default=False, description="Whether it answers predictions beside the module's executor."
    )
    memory: MemoryView = Field(description="What it takes.")


class RunningJobView(BaseModel):
    """A job on an executor."""

    model_config = ConfigDict(extra="allow")

    job_id: int = Field(description="Of the job.")
    attempt: int = Field(description="Counts all attempts there were.")
    kind: JobKind = Field(description="What it does.")
    module: str = Field(description="That it works on.", examples=["lenet"])


class ExecutorView(BaseModel):
    """An executor."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(description="Its device.", examples=["cpu(0)"])
    alive: bool = Field(description="Whether it answers.")
    state: ExecutorState | None = Field(
        default=None, examples=["ready"], description="Null of one within the server's process."
    )
    restarts: int | None = Field(default=None, description="How often it was started again.")
    last_end: str | None = Field(default=None, description="Why its process before ended.")
    pid: int | None = Field(default=None, description="Its process.")
    doing: str | None = Field(default=None, description="What it is at.")
    busy_seconds: float | None = Field(default=None, description="For how long.")
    rss_bytes: int | None = Field(default=None, description="Memory of its process.")
    calls_under_way: int | None = Field(
        default=None, description="Calls that wait for their answer."
    )
    request_bytes: int | None = Field(default=None, description="Shared memory of its requests.")
    device: str | None = Field(default=None, description="As it names it.", examples=["cpu(0)"])
    available_bytes: int | None = Field(default=None, description="Free memory of the machine.")
    device_memory: DeviceMemoryView | None = Field(
        default=None, description="Of a device with a memory of its own; null for a CPU."
    )
    numpy: str | None = Field(default=None, description="Version of NumPy.", examples=["2.3.4"])
    memory_budget: BudgetView | None = Field(default=None, description="Of its modules.")
    modules: list[ResidentView] = Field(default=[], description="On it.")
    jobs: list[RunningJobView] = Field(default=[], description="That it works on.")
