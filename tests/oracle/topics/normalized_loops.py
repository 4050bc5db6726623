"""Training of loops and branches whose bodies update states: moving averages, or those of an
operator written in Python, which its forward updates.

MXNet 1.9.1 trains them array by array only: bound as a graph they fail a check inside, so what is
stored comes from blocks that are not hybridized.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["CASES", "record", "run_case"]

CASES: dict[str, tuple[int, ...]] = {
    "foreach": (3, 4, 2),
    "while_loop": (4, 2),
    "cond_then": (4, 2),
    "cond_else": (4, 2),
    "nested": (3, 4, 2),
    "custom foreach": (3, 4, 2),
    "custom while_loop": (4, 2),
    "custom cond_then": (4, 2),
    "custom cond_else": (4, 2),
    "custom nested": (3, 4, 2),
}
"""Shapes of the data."""


def _growing(mx: Any) -> Any:
    """Return a layer whose factor grows with each training forward pass."""

    class Growing(mx.operator.CustomOp):  # type: ignore[misc]
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            self.assign(out_data[0], req[0], in_data[0] * aux[0])
            if is_train:
                aux[0][:] = aux[0] * 1.25 + 0.125

        def backward(
            self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any
        ) -> None:
            self.assign(in_grad[0], req[0], out_grad[0] * out_data[0] / in_data[0])

    @mx.operator.register("growing_in_a_loop")  # type: ignore[untyped-decorator]
    class Property(mx.operator.CustomOpProp):  # type: ignore[misc]
        def list_auxiliary_states(self) -> list[str]:
            return ["factor"]

        def infer_shape(self, in_shape: Any) -> Any:
            return in_shape, in_shape, [(1,)]

        def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Any:
            return Growing()

    class Layer(mx.gluon.HybridBlock):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(prefix="growing_")
            self.factor = self.params.get("factor", shape=(1,), init="ones", grad_req="null")

        def hybrid_forward(self, F: Any, x: Any, factor: Any) -> Any:
            return F.Custom(x, factor, op_type="growing_in_a_loop", name="custom")

    assert Property is not None
    return Layer()


def _block(mx: Any, case_id: str) -> Any:
    layer, _, case_id = case_id.rpartition(" ")

    class Block(mx.gluon.HybridBlock):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(prefix="net_")
            with self.name_scope():
                self.norm = mx.gluon.nn.BatchNorm(momentum=0.5) if not layer else _growing(mx)

        def _step(self, x: Any, states: Any) -> Any:
            y = self.norm(x)
            return y + states[0], [states[0] * 0.5 + y]

        def hybrid_forward(self, F: Any, x: Any, start: Any) -> Any:
            if case_id == "foreach":
                out, states = F.contrib.foreach(self._step, x, [start])
                return out, states[0]
            if case_id == "while_loop":

                def body(i: Any, y: Any) -> Any:
                    z = self.norm(y)
                    return z, [i + 1, z * z * 0.5 + y]

                count = F.sum(start * 0).reshape((1,))
                out, (_, y) = F.contrib.while_loop(
                    lambda i, y: i < 3, body, [count, x], max_iterations=3
                )
                return out, y
            if case_id == "nested":

                def rows(y: Any, states: Any) -> Any:
                    taken = F.sum(start * 0) + 1 > 0
                    z = F.contrib.cond(taken, lambda: self.norm(y), lambda: y * 2)
                    return z, [states[0] * 0.5 + z]

                out, states = F.contrib.foreach(rows, x, [start])
                return out, states[0]
            chosen = F.sum(start * 0) + (1 if case_id == "cond_then" else -1)
            out = F.contrib.cond(chosen > 0, lambda: self.norm(x), lambda: x * 2)
            return out, start * 2

    return Block()


def run_case(mx: Any, case_id: str, hybridize: bool = False) -> dict[str, np.ndarray]:
    """Return results and gradients of two training passes, moving averages after each; then the
    results of inference."""
    random = np.random.RandomState(len(case_id))
    net = _block(mx, case_id)
    net.initialize()
    x = mx.nd.array(random.normal(size=CASES[case_id]))
    start = mx.nd.array(random.normal(size=(4, 2)))
    net.norm(start)
    is_custom = case_id.startswith("custom")
    if not is_custom:
        net.norm.gamma.set_data(mx.nd.array([1.5, 0.5]))
        net.norm.running_var.set_data(mx.nd.array([2.0, 1.0]))
    if hybridize:
        net.hybridize()
    for array in (x, start):
        array.attach_grad()
    results = {}
    for step in range(2):
        with mx.autograd.record():
            outputs = net(x, start)
            total = sum((output * output * output).sum() for output in outputs)
        total.backward()
        results.update({f"output {i} {step}": one.asnumpy() for i, one in enumerate(outputs)})
        states = {"x": x.grad, "start": start.grad}
        if is_custom:
            states["factor"] = net.norm.factor.data()
        else:
            states |= {
                "gamma": net.norm.gamma.grad(),
                "beta": net.norm.beta.grad(),
                "mean": net.norm.running_mean.data(),
                "var": net.norm.running_var.data(),
            }
        for name, found in states.items():
            results[f"{name} {step}"] = found.asnumpy().copy()
    for i, one in enumerate(net(x, start)):
        results[f"inference {i}"] = one.asnumpy()
    return results


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the results of all cases."""
    return {
        f"{case_id}/{key}": value
        for case_id in CASES
        for key, value in run_case(mx, case_id).items()
    }
