"""Calls for a training loop, step by step, and for its optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.client.bodies import Content, Json
from app.client.methods import method
from app.client.module_results import ModuleView, OptimizerView, StepView, UpdateView
from app.client.request import AsJson, Request, at, content, nothing
from app.client.tensor_calls import NPZ, Tensors, arrays

if TYPE_CHECKING:
    import numpy.typing as npt

    from app.client.tensors import Arrays

__all__ = ["StepCalls"]

_NO_TENSORS: Mapping[str, npt.ArrayLike] = {}


class StepCalls:
    """Calls that train a bound module.

    Their other fields are those of the REST API: ``bucket``, ``generation``, ``sequence``, and for
    passes ``is_train``, ``with_outputs`` and ``monitor``.
    """

    @method
    def forward(
        self, /, name: str, inputs: Mapping[str, npt.ArrayLike], **fields: Any
    ) -> Request[Arrays]:
        """Compute and return the outputs of a batch; its inputs include the labels."""
        return _pass(name, "forward", inputs, fields)

    @method
    def forward_backward(
        self, /, name: str, inputs: Mapping[str, npt.ArrayLike], **fields: Any
    ) -> Request[Arrays]:
        """Compute gradients of a batch, and return the outputs."""
        return _pass(name, "forward_backward", inputs, fields)

    @method
    def backward(
        self, /, name: str, out_grads: Mapping[str, npt.ArrayLike] = _NO_TENSORS, **fields: Any
    ) -> Request[StepView]:
        """Compute the gradients of the last training pass.

        Args:
            name: of the module.
            out_grads: gradients by output name, for outputs that are not losses.
            **fields: ``generation`` and ``sequence``.
        """
        path, body = at("modules", name, "backward"), Tensors(out_grads)
        return Request(
            "POST", path, AsJson(StepView), body=body, query=fields, is_safe=_is_numbered(fields)
        )

    @method
    def update(self, /, name: str, **fields: Any) -> Request[UpdateView]:
        """Update the parameters from the gradients of the last backward pass."""
        path = at("modules", name, "update")
        return Request("POST", path, AsJson(UpdateView), query=fields, is_safe=_is_numbered(fields))

    @method
    def outputs(self, name: str) -> Request[Arrays]:
        """Return the outputs of the last pass."""
        return Request("GET", at("modules", name, "outputs"), arrays, accept=NPZ)

    @method
    def input_grads(self, name: str) -> Request[Arrays]:
        """Return the gradients of the data inputs; the module must be bound for that."""
        return Request("GET", at("modules", name, "input_grads"), arrays, accept=NPZ)

    @method
    def states(self, name: str) -> Request[Arrays]:
        """Return the arrays named in ``state_names``."""
        return Request("GET", at("modules", name, "states"), arrays, accept=NPZ)

    @method
    def set_states(
        self,
        name: str,
        states: Mapping[str, npt.ArrayLike] = _NO_TENSORS,
        value: float | None = None,
    ) -> Request[None]:
        """Set states by name, or all of them to one value."""
        body = Tensors(states, {} if value is None else {"value": value})
        return Request("PUT", at("modules", name, "states"), nothing, body=body)

    @method
    def init_optimizer(
        self, /, name: str, optimizer: str = "sgd", **options: Any
    ) -> Request[ModuleView]:
        """Install an optimizer."""
        body = Json({"name": optimizer, "options": options})
        return Request("POST", at("modules", name, "optimizer"), AsJson(ModuleView), body=body)

    @method
    def optimizer(self, name: str) -> Request[OptimizerView]:
        """Return a module's optimizer, with its learning rate and number of updates."""
        return Request("GET", at("modules", name, "optimizer"), AsJson(OptimizerView))

    @method
    def set_learning_rate(self, name: str, learning_rate: float) -> Request[ModuleView]:
        """Change the learning rate."""
        body = Json({"learning_rate": learning_rate})
        return Request("PATCH", at("modules", name, "optimizer"), AsJson(ModuleView), body=body)

    @method
    def optimizer_states(self, name: str) -> Request[bytes]:
        """Return the optimizer's states as the bytes of an MXNet ``.states`` file."""
        return Request("GET", at("modules", name, "optimizer", "states"), content)

    @method
    def set_optimizer_states(self, name: str, states: bytes) -> Request[None]:
        """Set the optimizer's states from the bytes of a ``.states`` file."""
        path = at("modules", name, "optimizer", "states")
        return Request("PUT", path, nothing, body=Content(states))


def _pass(
    name: str, verb: str, inputs: Mapping[str, npt.ArrayLike], fields: Mapping[str, Any]
) -> Request[Arrays]:
    path, body = at("modules", name, verb), Tensors(inputs)
    safe = _is_numbered(fields)
    return Request("POST", path, arrays, body=body, query=fields, accept=NPZ, is_safe=safe)


def _is_numbered(fields: Mapping[str, Any]) -> bool:
    """Return whether a step has a sequence number, which makes it safe to retry."""
    return fields.get("sequence") is not None
