"""Executors over several devices under MXNet's own name and arguments."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ..device import Context
from ..symbol import Symbol
from .base_module import describe
from .checks import group_contexts
from .group import ExecutorGroup
from .group_spec import GroupSpec

__all__ = ["DataParallelExecutorGroup"]


class DataParallelExecutorGroup(ExecutorGroup):
    """One executor a device, each with its share of the batch.

    Args:
        symbol: what is computed.
        contexts: the devices.
        workload: relative shares of the devices.
        data_shapes, label_shapes: descriptions or (name, shape) pairs, for whole batches.
        param_names: the arguments that are parameters.
        for_training: allocate gradients.
        inputs_need_grad: compute gradients of the data inputs too.
        shared_group: a group whose parameters and memory are used.
        logger: kept for scripts that log through it.
        fixed_param_names: parameters without gradients.
        grad_req: ``"write"``, ``"add"`` or ``"null"``, for all, in order or by name.
        state_names: arguments that are neither data nor parameters.
        group2ctxs: device of each ``ctx_group``.
    """

    def __init__(
        self,
        symbol: Symbol,
        contexts: Sequence[Context],
        workload: Sequence[float] | None,
        data_shapes: Sequence[Any],
        label_shapes: Sequence[Any] | None,
        param_names: Sequence[str],
        for_training: bool,
        inputs_need_grad: bool,
        shared_group: ExecutorGroup | None = None,
        logger: Any = logging,
        fixed_param_names: Sequence[str] | None = None,
        grad_req: Any = "write",
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
    ) -> None:
        spec = GroupSpec(
            symbol,
            contexts,
            workload or [1] * len(contexts),
            param_names,
            state_names or (),
            fixed_param_names or (),
            for_training,
            inputs_need_grad,
            grad_req,
            group_contexts(group2ctxs, len(contexts)),
        )
        super().__init__(spec, describe(data_shapes), describe(label_shapes), shared_group)
        self.logger = logger
