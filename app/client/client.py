"""The REST surface as Python calls (httpx), one method per verb."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt

from app.tensors.codec import NPY, NPZ, decode, encode

__all__ = ["Client", "ClientError"]

Arrays = dict[str, npt.NDArray[Any]]

_STREAM_TIMEOUT = httpx.Timeout(10.0, read=60.0)
_RECONNECT_SECONDS = 30.0
_RETRY_SECONDS = 0.1


class ClientError(Exception):
    """The server refused a call.

    Attributes:
        status: HTTP status.
        problem: the body of the answer.
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(f"{status} {problem.get('code', '')}: {problem.get('detail', '')}")
        self.status = status
        self.problem = problem


class Client:
    """Calls a modserve server.

    Args:
        base_url: for example ``http://127.0.0.1:8000``.
        timeout_seconds: of a call that is no stream.
        transport: replaces the network, in tests.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        timeout_seconds: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(base_url=base_url, timeout=timeout_seconds, transport=transport)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Make a call; raise ClientError where it is refused."""
        return _checked(self._http.request(method, path, **options))

    def is_ready(self) -> bool:
        """Tell whether the server answers and is ready."""
        try:
            return self._http.get("/readyz", timeout=2.0).status_code == 200
        except httpx.TransportError:
            return False

    # -- datasets ---------------------------------------------------------------------------

    def put_dataset(self, name: str, file: Path, kind: str = "npz") -> dict[str, Any]:
        """Upload a file as a dataset."""
        with file.open("rb") as stream:
            return self._json("PUT", f"/v1/datasets/{name}", params={"kind": kind}, content=stream)

    def delete_dataset(self, name: str) -> None:
        """Delete a dataset."""
        self.request("DELETE", f"/v1/datasets/{name}")

    # -- modules ----------------------------------------------------------------------------

    def create_module(self, name: str, symbol: Any, **options: Any) -> dict[str, Any]:
        """Create a module from its symbol (parsed JSON or text)."""
        body = {"name": name, "symbol": _parsed(symbol), **options}
        return self._json("POST", "/v1/modules", json=body)

    def create_bucketing_module(
        self, name: str, symbols: Mapping[int, Any], default_bucket_key: int, **options: Any
    ) -> dict[str, Any]:
        """Create a module from a symbol (parsed JSON or text) per bucket key."""
        body = {
            "name": name,
            "symbols": {str(key): _parsed(symbol) for key, symbol in symbols.items()},
            "default_bucket_key": str(default_bucket_key),
            **options,
        }
        return self._json("POST", "/v1/modules", json=body)

    def create_from_files(self, name: str, files: Sequence[Path], **fields: Any) -> dict[str, Any]:
        """Create a module from a checkpoint that MXNet wrote; its parameters are loaded.

        Args:
            name: of the module.
            files: the symbol, the parameters and, if there are some, the optimizer's states.
            **fields: ``epoch``, ``allow_extra``, ``data_names`` and other names, as of the form.
        """
        parts = {_part_of(file): file for file in files}
        texts = {key: _form_value(value) for key, value in fields.items()}
        with ExitStack() as stack:
            opened = {
                part: (file.name, stack.enter_context(file.open("rb")))
                for part, file in parts.items()
            }
            return self._json("POST", "/v1/modules", data={"name": name, **texts}, files=opened)

    def create_from_module(
        self, name: str, source: str, epoch: int | str | None = None, **options: Any
    ) -> dict[str, Any]:
        """Create a module that begins with a checkpoint of another one.

        Args:
            name: of the new module.
            source: the other module.
            epoch: of its checkpoint; the newest where None.
            **options: ``output`` to cut the symbol at, ``head`` to put there, and others.
        """
        body = {"name": name, "from": {"module": source, "epoch": epoch}, **options}
        return self._json("POST", "/v1/modules", json=body)

    def module(self, name: str) -> dict[str, Any]:
        """Return a module's description."""
        return self._json("GET", f"/v1/modules/{name}")

    def delete_module(self, name: str) -> None:
        """Delete a module with its checkpoints."""
        self.request("DELETE", f"/v1/modules/{name}")

    def bind(
        self,
        name: str,
        data_shapes: Sequence[Mapping[str, Any]],
        label_shapes: Sequence[Mapping[str, Any]] = (),
        **options: Any,
    ) -> dict[str, Any]:
        """Bind a module."""
        body = {"data_shapes": data_shapes, "label_shapes": label_shapes, **options}
        return self._json("POST", f"/v1/modules/{name}/bind", json=body)

    def init_params(
        self, name: str, initializer: str = "uniform", **options: Any
    ) -> dict[str, Any]:
        """Initialize the parameters."""
        body = {"initializer": initializer, **options}
        return self._json("POST", f"/v1/modules/{name}/params/init", json=body)

    def init_optimizer(self, name: str, optimizer: str = "sgd", **options: Any) -> dict[str, Any]:
        """Install an optimizer."""
        body = {"name": optimizer, "options": options}
        return self._json("POST", f"/v1/modules/{name}/optimizer", json=body)

    def predict(self, name: str, **inputs: npt.ArrayLike) -> Arrays:
        """Return the outputs by name for a batch of inputs by name."""
        return _tensors(self._send_tensors("POST", f"/v1/modules/{name}/predict", inputs))

    def statistics(self, name: str, pattern: str = "*") -> list[dict[str, Any]]:
        """Return statistics of arrays whose names match, of those of a monitored pass as well."""
        path = f"/v1/modules/{name}/monitor"
        rows: list[dict[str, Any]] = self._json("GET", path, params={"pattern": pattern})["items"]
        return rows

    def params(self, name: str) -> Arrays:
        """Return all parameters by name."""
        return _tensors(self.request("GET", f"/v1/modules/{name}/params", headers={"Accept": NPZ}))

    def set_params(
        self, name: str, params: Mapping[str, npt.ArrayLike], **flags: bool
    ) -> dict[str, Any]:
        """Set parameters by name; flags are ``allow_missing``, ``allow_extra`` and others."""
        path = f"/v1/modules/{name}/params"
        answer: dict[str, Any] = self._send_tensors("PUT", path, params, params=flags).json()
        return answer

    def param(self, name: str, parameter: str) -> npt.NDArray[Any]:
        """Return one parameter."""
        path = f"/v1/modules/{name}/params/{parameter}"
        return _tensors(self.request("GET", path, headers={"Accept": NPY}))["data"]

    # -- checkpoints ------------------------------------------------------------------------

    def save_checkpoint(self, name: str, epoch: int) -> dict[str, Any]:
        """Save the present state as the checkpoint of an epoch."""
        return self._json("POST", f"/v1/modules/{name}/checkpoints", json={"epoch": epoch})

    def checkpoints(self, name: str) -> list[dict[str, Any]]:
        """Return the checkpoints, newest first."""
        listed: list[dict[str, Any]] = self._json("GET", f"/v1/modules/{name}/checkpoints")["items"]
        return listed

    def put_checkpoint_file(self, name: str, epoch: int, file: Path) -> dict[str, Any]:
        """Upload a file of a checkpoint that MXNet wrote, for ``load``."""
        path = f"/v1/modules/{name}/checkpoints/{epoch}/files/{file.name}"
        with file.open("rb") as stream:
            return self._json("PUT", path, content=stream)

    def load(self, name: str, epoch: int | str, **options: bool) -> dict[str, Any]:
        """Load a checkpoint; with ``optimizer_states=True`` these too.

        Other options are ``allow_missing`` and ``allow_extra``.
        """
        return self._json("POST", f"/v1/modules/{name}/load", json={"epoch": epoch, **options})

    # -- jobs -------------------------------------------------------------------------------

    def fit(self, name: str, **params: Any) -> dict[str, Any]:
        """Submit a training job."""
        return self._json("POST", f"/v1/modules/{name}/fit", json=params)

    def score(self, name: str, **params: Any) -> dict[str, Any]:
        """Submit a scoring job."""
        return self._json("POST", f"/v1/modules/{name}/score", json=params)

    def predict_dataset(self, name: str, **params: Any) -> dict[str, Any]:
        """Submit a job that predicts a dataset into another."""
        return self._json("POST", f"/v1/modules/{name}/predict-dataset", json=params)

    def job(self, job_id: int) -> dict[str, Any]:
        """Return a job."""
        return self._json("GET", f"/v1/jobs/{job_id}")

    def pause(self, job_id: int) -> dict[str, Any]:
        """Pause a job; one that runs saves a checkpoint first."""
        return self._json("POST", f"/v1/jobs/{job_id}/pause")

    def resume(self, job_id: int) -> dict[str, Any]:
        """Queue a paused job again."""
        return self._json("POST", f"/v1/jobs/{job_id}/resume")

    def cancel(self, job_id: int) -> dict[str, Any]:
        """Cancel a job."""
        return self._json("POST", f"/v1/jobs/{job_id}/cancel")

    def retry(self, job_id: int) -> dict[str, Any]:
        """Queue a failed or cancelled job again."""
        return self._json("POST", f"/v1/jobs/{job_id}/retry")

    def job_metrics(self, job_id: int) -> list[dict[str, Any]]:
        """Return the metrics of every epoch so far, as events."""
        rows: list[dict[str, Any]] = []
        where: dict[str, str] = {}
        while True:
            page = self._json("GET", f"/v1/jobs/{job_id}/metrics", params=where)
            rows += page["items"]
            if page["next_cursor"] is None:
                return rows
            where = {"cursor": page["next_cursor"]}

    def job_events(self, job_id: int, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield a job's events after an id until it ends.

        A stream that breaks is taken up again where it broke, also by a server that was restarted.

        Raises:
            httpx.TransportError: the server did not come back within half a minute.
        """
        while True:
            try:
                for event in self._stream_events(job_id, after):
                    after = event["id"]
                    yield event
                return
            except httpx.TransportError:
                if not self._comes_back():
                    raise

    def wait(self, job_id: int) -> dict[str, Any]:
        """Return a job once it has ended."""
        for _ in self.job_events(job_id):
            pass
        return self.job(job_id)

    def _stream_events(self, job_id: int, after: int) -> Iterator[dict[str, Any]]:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        path = f"/v1/jobs/{job_id}/events"
        with self._http.stream("GET", path, headers=headers, timeout=_STREAM_TIMEOUT) as response:
            if response.status_code != 200:
                response.read()
            _checked(response)
            for line in response.iter_lines():
                if line.startswith("data:"):
                    yield json.loads(line.removeprefix("data:"))

    def _send_tensors(
        self, method: str, path: str, tensors: Mapping[str, npt.ArrayLike], **options: Any
    ) -> httpx.Response:
        arrays = {name: np.asarray(value) for name, value in tensors.items()}
        headers = {"Content-Type": NPZ, "Accept": NPZ}
        body = encode(NPZ, arrays, "inputs")
        return self.request(method, path, content=body, headers=headers, **options)

    def _comes_back(self) -> bool:
        deadline = time.monotonic() + _RECONNECT_SECONDS
        while not self.is_ready():
            if time.monotonic() > deadline:
                return False
            time.sleep(_RETRY_SECONDS)
        return True

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        parsed: dict[str, Any] = self.request(method, path, **options).json()
        return parsed


def _part_of(file: Path) -> str:
    return {".params": "params", ".states": "states"}.get(file.suffix, "symbol")


def _form_value(value: Any) -> Any:
    """Return a field of a form: a list repeats it, a flag is a word."""
    if isinstance(value, bool):
        return str(value).lower()
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def _parsed(symbol: Any) -> Any:
    return json.loads(symbol) if isinstance(symbol, str) else symbol


def _tensors(response: httpx.Response) -> Arrays:
    arrays, _ = decode(
        response.headers["content-type"],
        response.content,
        names=["data"],
        limit=2**40,
        setting="the server's answer",
    )
    return arrays


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    try:
        problem = response.json()
    except ValueError:
        problem = {"detail": response.text[:500]}
    raise ClientError(response.status_code, problem)
