"""Losses of predictions and labels, one number per example (``mx.gluon.loss``)."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from ..errors import UsageError
from .hybrid_block import HybridBlock

__all__ = [
    "CTCLoss",
    "CosineEmbeddingLoss",
    "HingeLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "L2Loss",
    "LogisticLoss",
    "Loss",
    "PoissonNLLLoss",
    "SDMLLoss",
    "SigmoidBCELoss",
    "SigmoidBinaryCrossEntropyLoss",
    "SoftmaxCELoss",
    "SoftmaxCrossEntropyLoss",
    "SquaredHingeLoss",
    "TripletLoss",
]


def _apply_weighting(F: Any, loss: Any, weight: Any = None, sample_weight: Any = None) -> Any:
    """Return a loss times the weights of the examples and a common weight.

    Losses in public code call this function of MXNet.
    """
    if sample_weight is not None:
        loss = F.broadcast_mul(loss, sample_weight)
    if weight is None:
        return loss
    if not isinstance(weight, Real):
        raise UsageError(f"weight must be a number, got {type(weight).__name__}")
    return loss * weight


def _reshape_like(F: Any, x: Any, y: Any) -> Any:
    """Return ``x`` in the shape of ``y``; losses in public code call this function of MXNet."""
    return F.reshape_like(x, y)


class Loss(HybridBlock):
    """Base of losses.

    Args:
        weight: common weight of all examples.
        batch_axis: the batch axis.
        **kwargs: ``prefix`` and ``params`` of a block.
    """

    def __init__(self, weight: float | None, batch_axis: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if weight is not None and not isinstance(weight, Real):
            raise UsageError(f"weight must be a number, got {type(weight).__name__}")
        self._weight = weight
        self._batch_axis = batch_axis

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_axis={self._batch_axis}, w={self._weight})"

    def weighted(self, F: Any, loss: Any, sample_weight: Any) -> Any:
        """Return a loss times the weights of the examples and the common weight."""
        return _apply_weighting(F, loss, self._weight, sample_weight)

    def mean(self, F: Any, loss: Any, sample_weight: Any) -> Any:
        """Return the mean of the weighted losses of each example."""
        loss = self.weighted(F, loss, sample_weight)
        return F.mean(loss, axis=self._batch_axis, exclude=True)


class _ElementLoss(Loss):
    """A loss that is a mean over elements; a subclass defines the elements."""

    def __init__(self, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def elements(self, F: Any, pred: Any, label: Any) -> Any:
        """Return the loss of each element."""
        raise NotImplementedError(f"{type(self).__name__} must define elements")

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of predictions ``x``, given labels and optional example weights."""
        label, sample_weight = _arguments(("label", "sample_weight"), args, kwargs)
        elements = self.elements(F, x, F.reshape_like(label, x))
        return self.mean(F, elements, sample_weight)


class L2Loss(_ElementLoss):
    """Half the squared difference."""

    def __init__(self, weight: float = 1.0, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def elements(self, F: Any, pred: Any, label: Any) -> Any:
        """Return the loss of each element."""
        return F.square(label - pred) / 2


class L1Loss(_ElementLoss):
    """The absolute difference."""

    def elements(self, F: Any, pred: Any, label: Any) -> Any:
        """Return the loss of each element."""
        return F.abs(label - pred)


class HuberLoss(_ElementLoss):
    """Quadratic for differences below ``rho``, linear above.

    Args:
        rho: the threshold.
        weight, batch_axis, **kwargs: as for ``Loss``.
    """

    def __init__(
        self, rho: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def elements(self, F: Any, pred: Any, label: Any) -> Any:
        """Return the loss of each element."""
        distance = F.abs(label - pred)
        square = (0.5 / self._rho) * F.square(distance)
        return F.where(distance > self._rho, distance - 0.5 * self._rho, square)


class HingeLoss(_ElementLoss):
    """How far a score falls short of a margin; labels are -1 or 1.

    Args:
        margin: the margin.
        weight, batch_axis, **kwargs: as for ``Loss``.
    """

    def __init__(
        self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def elements(self, F: Any, pred: Any, label: Any) -> Any:
        """Return the loss of each element."""
        return F.relu(self._margin - pred * label)


class SquaredHingeLoss(HingeLoss):
    """The square of the hinge loss."""

    def elements(self, F: Any, pred: Any, label: Any) -> Any:
        """Return the loss of each element."""
        return F.square(super().elements(F, pred, label))


class LogisticLoss(_ElementLoss):
    """The negative logarithm of the sigmoid of a score.

    Args:
        weight, batch_axis, **kwargs: as for ``Loss``.
        label_format: ``"signed"`` for labels -1 or 1, ``"binary"`` for 0 or 1.
    """

    def __init__(
        self,
        weight: float | None = None,
        batch_axis: int = 0,
        label_format: str = "signed",
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in ("signed", "binary"):
            raise ValueError(f"label_format can only be signed or binary, received {label_format}.")
        self._label_format = label_format

    def elements(self, F: Any, pred: Any, label: Any) -> Any:
        """Return the loss of each element."""
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        return _logistic(F, pred, label)


class SigmoidBinaryCrossEntropyLoss(Loss):
    """Binary cross-entropy of a probability, or of the sigmoid of a score.

    Args:
        from_sigmoid: whether predictions are probabilities already.
        weight, batch_axis, **kwargs: as for ``Loss``.
    """

    def __init__(
        self,
        from_sigmoid: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of predictions ``x``, given labels, weights and positive weights."""
        names = ("label", "sample_weight", "pos_weight")
        label, sample_weight, positive = _arguments(names, args, kwargs)
        label = F.reshape_like(label, x)
        if self._from_sigmoid:
            # Here and below 1e-12, as in MXNet, keeps logarithms and quotients finite at 0.
            hit = F.log(x + 1e-12) * label
            hit = hit if positive is None else F.broadcast_mul(hit, positive)
            loss = -(hit + F.log(1.0 - x + 1e-12) * (1.0 - label))
        elif positive is None:
            loss = _logistic(F, x, label)
        else:
            # The last factor is log(1 + exp(-x)), as in _logistic.
            factor = 1 + F.broadcast_mul(positive - 1, label)
            loss = x - x * label + factor * (_softplus(F, -F.abs(x)) + F.relu(-x))
        return self.mean(F, loss, sample_weight)


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """Cross-entropy of the softmax of scores.

    Args:
        axis: the axis of classes.
        sparse_label: whether labels are class indices, otherwise probabilities.
        from_logits: whether predictions are log probabilities.
        weight, batch_axis, **kwargs: as for ``Loss``.
    """

    def __init__(
        self,
        axis: int = -1,
        sparse_label: bool = True,
        from_logits: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._axis, self._sparse_label, self._from_logits = axis, sparse_label, from_logits

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of predictions ``x``, given labels and optional example weights."""
        label, sample_weight = _arguments(("label", "sample_weight"), args, kwargs)
        logs = x if self._from_logits else F.log_softmax(x, axis=self._axis)
        if self._sparse_label:
            loss = -F.pick(logs, label, axis=self._axis, keepdims=True)
        else:
            product = logs * F.reshape_like(label, logs)
            loss = -F.sum(product, axis=self._axis, keepdims=True)
        return self.mean(F, loss, sample_weight)


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """The Kullback-Leibler divergence of predictions from labels, both distributions.

    Args:
        from_logits: whether predictions are log probabilities, otherwise scores.
        axis: the axis of classes.
        weight, batch_axis, **kwargs: as for ``Loss``.
    """

    def __init__(
        self,
        from_logits: bool = True,
        axis: int = -1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._axis = from_logits, axis

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of predictions ``x``, given labels and optional example weights."""
        label, sample_weight = _arguments(("label", "sample_weight"), args, kwargs)
        logs = x if self._from_logits else F.log_softmax(x, axis=self._axis)
        loss = self.weighted(F, label * (F.log(label + 1e-12) - logs), sample_weight)
        # MXNet 1.9 sums here, unlike in its other losses.
        return F.sum(loss, axis=self._batch_axis, exclude=True)


class CTCLoss(Loss):
    """Connectionist temporal classification (Graves et al. 2006); the last class is blank.

    Args:
        layout: ``"NTC"`` or ``"TNC"`` of predictions.
        label_layout: ``"NT"`` or ``"TN"`` of labels.
        weight, **kwargs: as for ``Loss``.
    """

    def __init__(
        self,
        layout: str = "NTC",
        label_layout: str = "NT",
        weight: float | None = None,
        **kwargs: Any,
    ) -> None:
        if layout not in ("NTC", "TNC") or label_layout not in ("NT", "TN"):
            raise UsageError(
                f"layout {layout!r} and label_layout {label_layout!r}: only 'NTC' and 'TNC', 'NT' "
                "and 'TN' are supported"
            )
        super().__init__(weight, label_layout.find("N"), **kwargs)
        self._layout = layout

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of predictions ``x``, given labels, lengths of both, and weights."""
        names = ("label", "pred_lengths", "label_lengths", "sample_weight")
        label, pred_lengths, label_lengths, sample_weight = _arguments(names, args, kwargs)
        pred = F.swapaxes(x, dim1=0, dim2=1) if self._layout == "NTC" else x
        label = F.swapaxes(label, dim1=0, dim2=1) if self._batch_axis == 1 else label
        lengths = {"data_lengths": pred_lengths, "label_lengths": label_lengths}
        loss = F.CTCLoss(
            pred,
            label,
            use_data_lengths=pred_lengths is not None,
            use_label_lengths=label_lengths is not None,
            blank_label="last",
            **{name: one for name, one in lengths.items() if one is not None},
        )
        return self.weighted(F, loss, sample_weight)


class TripletLoss(Loss):
    """Triplet loss: the squared distance of a positive example minus that of a negative one, plus a
    margin.

    Args:
        margin: the margin.
        weight, batch_axis, **kwargs: as for ``Loss``.
    """

    def __init__(
        self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of anchors ``x``, given positive and negative examples."""
        positive, negative = (
            F.reshape_like(one, x) for one in _arguments(("positive", "negative"), args, kwargs)
        )
        distances = F.square(positive - x) - F.square(negative - x)
        loss = F.relu(F.sum(distances, axis=self._batch_axis, exclude=True) + self._margin)
        return self.weighted(F, loss, None)


class PoissonNLLLoss(Loss):
    """Negative log-likelihood of Poisson counts, one number for the whole batch.

    Args:
        weight, batch_axis, **kwargs: as for ``Loss``.
        from_logits: whether predictions are logarithms of rates.
        compute_full: add Stirling's approximation of the term that does not depend on the
            prediction.
    """

    def __init__(
        self,
        weight: float | None = None,
        from_logits: bool = True,
        batch_axis: int = 0,
        compute_full: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._compute_full = from_logits, compute_full

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of predictions ``x``, given counts, weights and an epsilon."""
        names = ("target", "sample_weight", "epsilon")
        target, sample_weight, epsilon = _arguments(names, args, kwargs)
        target = F.reshape_like(target, x)
        if self._from_logits:
            loss = F.exp(x) - target * x
        else:
            loss = x - target * F.log(x + (1e-8 if epsilon is None else epsilon))
        if self._compute_full:
            full = target * F.log(target) - target + 0.5 * F.log(2 * math.pi * target)
            loss = loss + full * (target > 1)
        return F.mean(self.weighted(F, loss, sample_weight))


class CosineEmbeddingLoss(Loss):
    """1 - cos of two matching vectors (label 1), cos - margin of two others (label -1).

    Args:
        weight, batch_axis, **kwargs: as for ``Loss``.
        margin: the margin.
    """

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, margin: float = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return (batch, 1) losses of vectors ``x``, given others, labels and weights."""
        other, label, sample_weight = _arguments(("input2", "label", "sample_weight"), args, kwargs)
        x = F.reshape_like(x, other)
        label = label.reshape((-1, 1))
        norms = [F.norm(one, axis=-1).reshape((-1, 1)) for one in (x, other)]
        product = F.sum(x * other, axis=-1).reshape((-1, 1))
        cosine = product / F.broadcast_maximum(norms[0] * norms[1], F.full((1, 1), 1e-12))
        apart = F.relu((label == -1) * (cosine - self._margin))
        return self.weighted(F, (1 - cosine) * (label == 1) + apart, sample_weight)


class SDMLLoss(Loss):
    """Smoothed deep metric learning of pairs (Bonadiman et al., arXiv:1905.12786); arrays only.

    Args:
        smoothing_parameter: total probability assigned to the other examples of the batch.
        weight, batch_axis, **kwargs: as for ``Loss``.
    """

    def __init__(
        self,
        smoothing_parameter: float = 0.3,
        weight: float = 1.0,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self.kl_loss = KLDivLoss(from_logits=True)
        self.smoothing_parameter = smoothing_parameter

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the loss of vectors ``x``, given their matching vectors."""
        (other,) = _arguments(("x2",), args, kwargs)
        if x.shape != other.shape:
            raise UsageError(f"the two inputs have shapes {x.shape} and {other.shape}; not equal")
        batch, width = x.shape
        shape = (batch, batch, width)
        pairs = F.broadcast_to(x.expand_dims(1), shape), F.broadcast_to(other.expand_dims(0), shape)
        distances = F.sum(F.square(pairs[0] - pairs[1]), axis=2)
        own = F.eye(batch)
        rest = self.smoothing_parameter / (batch - 1)
        labels = own * (1 - self.smoothing_parameter) + (1 - own) * rest
        logs = F.log_softmax(-distances, axis=1)
        return self.kl_loss(logs, labels.as_in_context(distances.context))


def _logistic(F: Any, x: Any, label: Any) -> Any:
    """Return log(1 + exp(x)) - x * label, in a form in which exp cannot overflow."""
    return F.relu(x) - x * label + _softplus(F, -F.abs(x))


def _softplus(F: Any, x: Any) -> Any:
    return F.Activation(x, act_type="softrelu")


def _arguments(names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return arguments given by position or name, None for those omitted."""
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    return [given.get(name) for name in names]
