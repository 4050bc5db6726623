"""What every optimizer shares: rates, weight decay, update counts and the registry."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..checkpoint import register_pickled
from ..compat.optimizer_names import OptimizerNames
from ..errors import WrongType, did_you_mean
from ..ndarray import NDArray
from ..symbol import Symbol
from ..types import is_half
from .lr_scheduler import LRScheduler

__all__ = ["Optimizer", "create", "register"]

_T = TypeVar("_T", bound="type[Optimizer]")


class Optimizer(OptimizerNames):
    """Base of all optimizers (``mx.optimizer.Optimizer``).

    Args:
        rescale_grad: factor applied to every gradient first, often 1/batch_size.
        param_idx2name: parameter name of each index that ``update`` is called with.
        wd: weight decay.
        clip_gradient: gradients are clipped to [-clip_gradient, clip_gradient].
        learning_rate: the rate, 0.01 unless a scheduler gives it.
        lr_scheduler: gives the rate of each update.
        sym: symbol whose ``__lr_mult__`` and ``__wd_mult__`` attributes apply.
        begin_num_update: the update count to start from.
        multi_precision: keep float32 copies of float16 weights.
        param_dict: gluon parameters by index; their multipliers win.
    """

    opt_registry: dict[str, type[Optimizer]] = {}  # noqa: RUF012 - MXNet's public name
    decayed_suffixes: ClassVar[tuple[str, ...]] = ("_weight", "_gamma")

    def __init__(
        self,
        rescale_grad: float = 1.0,
        param_idx2name: Mapping[Any, str] | None = None,
        wd: float = 0.0,
        clip_gradient: float | None = None,
        learning_rate: float | None = None,
        lr_scheduler: LRScheduler | None = None,
        sym: Symbol | None = None,
        begin_num_update: int = 0,
        multi_precision: bool = False,
        param_dict: Mapping[Any, Any] | None = None,
    ) -> None:
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        if lr_scheduler is None and learning_rate is None:
            learning_rate = 0.01
        self.lr = learning_rate
        if lr_scheduler is not None and learning_rate is not None:
            lr_scheduler.base_lr = learning_rate
        self.wd = wd
        self.lr_mult: dict[Any, float] = {}
        self.wd_mult: dict[Any, float] = {}
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        # By device: parameters have the same index on each, and would otherwise count every update
        # once per device. MXNet's name, because pickled optimizers contain it.
        self._all_index_update_counts: dict[int, dict[Any, int]] = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.aggregate_num = 0
        if not isinstance(param_idx2name, Mapping | None):
            raise WrongType(
                f"param_idx2name is {type(param_idx2name).__name__}; expected a dict of parameter "
                "indexes to names"
            )
        self.idx2name = dict(param_idx2name or {})
        self.sym_info = (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        self.param_dict = param_dict or {}
        self.set_lr_mult({})
        self.set_wd_mult({})

    # -- state and update -------------------------------------------------------------------

    def create_state(self, index: Any, weight: NDArray) -> Any:
        """Return the state of one parameter: None, an NDArray or a tuple of them."""
        return None

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """Return the state, with a float32 copy of the weight before it where that is kept."""
        if self._keeps_master_copy(weight):
            master = weight.astype(np.float32)
            return (master, self.create_state(index, master))
        if is_half(np.dtype(weight.dtype)):
            warnings.warn(
                f"{np.dtype(weight.dtype)} weights are updated in half precision; "
                "multi_precision=True keeps float32 copies",
                stacklevel=2,
            )
        return self.create_state(index, weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update one weight in place from its gradient and state."""
        raise NotImplementedError(f"{type(self).__name__} must define update")

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update one weight, through its float32 copy where there is one."""
        if not self._keeps_master_copy(weight):
            self.update(index, weight, grad, state)
            return
        master, inner = state
        self.update(index, master, grad.astype(np.float32), inner)
        weight[:] = master

    def _keeps_master_copy(self, weight: NDArray) -> bool:
        return self.multi_precision and is_half(np.dtype(weight.dtype))

    # -- rates ------------------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next update, multipliers aside."""
        if self.lr_scheduler is not None:
            return self.lr_scheduler(self.num_update)
        assert self.lr is not None
        return self.lr

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate; raise UserWarning where a scheduler gives it."""
        if self.lr_scheduler is not None:
            raise UserWarning(
                "the learning rate comes from the lr_scheduler; change the scheduler's base_lr"
            )
        self.lr = lr

    def set_lr_mult(self, args_lr_mult: Mapping[Any, float]) -> None:
        """Set factors on the learning rate by parameter name or index, over ``__lr_mult__``.

        It warns if a Trainer uses the optimizer, because then those of the parameters apply.
        """
        self.warn_of_overridden("lr_mult", args_lr_mult)
        self.lr_mult = self._symbol_multipliers("__lr_mult__")
        self.lr_mult.update(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Mapping[Any, float]) -> None:
        """Set factors on the weight decay by parameter name or index, over ``__wd_mult__``.

        Parameters whose name ends in none of ``decayed_suffixes`` start with 0. It warns if a
        Trainer uses the optimizer, because then those of the parameters apply.
        """
        self.warn_of_overridden("wd_mult", args_wd_mult)
        self.wd_mult = {
            name: 0.0 for name in self.idx2name.values() if not name.endswith(self.decayed_suffixes)
        }
        self.wd_mult.update(self._symbol_multipliers("__wd_mult__"))
        self.wd_mult.update(args_wd_mult)

    def _symbol_multipliers(self, key: str) -> dict[Any, float]:
        if not self.sym_info:
            return {}
        attributes, arguments = self.sym_info
        return {
            name: float(attributes[name][key])
            for name in arguments
            if key in attributes.get(name, {})
        }

    def multipliers_ignored(self, symbol: Symbol) -> list[str]:
        """Return the parameters of a symbol whose multipliers this optimizer does not know."""
        return [
            name
            for name, attributes in symbol.attr_dict().items()
            for key, table in (("__lr_mult__", self.lr_mult), ("__wd_mult__", self.wd_mult))
            if float(attributes.get(key, table.get(name, 1.0))) != table.get(name, 1.0)
        ]

    def warn_of_overridden(self, attribute: str, given: Mapping[Any, float]) -> None:
        """Warn of factors that have no effect, because the parameters of a Trainer have others."""
        if given and self.param_dict:
            warnings.warn(
                f"{attribute} of {', '.join(map(str, given))} has no effect: a Trainer takes it "
                f"from the parameters; set the parameters' {attribute} instead",
                stacklevel=3,
            )

    def _multiplier(self, index: Any, table: Mapping[Any, float], attribute: str) -> float:
        if index in self.param_dict:
            return float(getattr(self.param_dict[index], attribute))
        if index in table:
            return table[index]
        return table.get(self.idx2name.get(index), 1.0)

    def _get_lr(self, index: Any) -> float:
        return self.learning_rate * self._multiplier(index, self.lr_mult, "lr_mult")

    def _get_wd(self, index: Any) -> float:
        return self.wd * self._multiplier(index, self.wd_mult, "wd_mult")

    def _get_lrs(self, indices: Sequence[Any]) -> list[float]:
        return [self._get_lr(index) for index in indices]

    def _get_wds(self, indices: Sequence[Any]) -> list[float]:
        return [self._get_wd(index) for index in indices]

    # -- update counts ----------------------------------------------------------------------

    def _set_current_context(self, device_id: int) -> None:
        self._index_update_count = self._all_index_update_counts.setdefault(device_id, {})

    def _update_count(self, index: Any | Sequence[Any]) -> None:
        for key in index if isinstance(index, (list, tuple)) else (index,):
            count = self._index_update_count.get(key, self.begin_num_update) + 1
            self._index_update_count[key] = count
            self.num_update = max(count, self.num_update)

    def __getstate__(self) -> dict[str, Any]:
        # As in MXNet: states saved with their optimizer must not contain the parameters as well.
        state = self.__dict__.copy()
        del state["param_dict"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.param_dict = {}

    # -- registry ---------------------------------------------------------------------------

    @staticmethod
    def register(klass: _T) -> _T:
        """Register an optimizer class under its name in lower case."""
        if not isinstance(klass, type):
            raise WrongType(f"{klass!r} is not a class; expected a subclass of Optimizer")
        name = klass.__name__.lower()
        if name in Optimizer.opt_registry:
            other = Optimizer.opt_registry[name]
            warnings.warn(
                f"optimizer {klass.__module__}.{klass.__name__} replaces "
                f"{other.__module__}.{other.__name__}",
                stacklevel=2,
            )
        Optimizer.opt_registry[name] = klass
        # Under the module that files written by MXNet name.
        own = klass.__module__.startswith(f"{__package__}.")
        register_pickled(klass, "mxnet.optimizer.optimizer" if own else klass.__module__)
        return klass

    @staticmethod
    def create_optimizer(name: str, **kwargs: Any) -> Optimizer:
        """Return an optimizer by its name, in any case; raise ValueError for an unknown one."""
        try:
            klass = Optimizer.opt_registry[name.lower()]
        except KeyError:
            known = Optimizer.opt_registry
            raise ValueError(
                f"Cannot find optimizer {name!r}{did_you_mean(name.lower(), known)}; "
                f"there are {', '.join(sorted(known))}"
            ) from None
        return klass(**kwargs)


register = Optimizer.register
create = Optimizer.create_optimizer
