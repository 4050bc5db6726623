"""Kinds of layers: operators that have parameters, or work on images or sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ..types import Array, DType, Shape
from .kinds import Kind

__all__ = [
    "ADAPTIVE_AVERAGE",
    "BATCH_NORM",
    "BILINEAR_RESIZE",
    "COLUMNS_TO_IMAGE",
    "CONVOLUTION",
    "DECONVOLUTION",
    "EMBEDDING",
    "FULLY_CONNECTED",
    "GROUP_NORM",
    "IMAGE_TO_COLUMNS",
    "INSTANCE_NORM",
    "L2_NORMALIZATION",
    "LAYER_NORM",
    "LOCAL_RESPONSE",
    "POOLING",
    "RNN",
    "UP_SAMPLING",
    "BatchNorm",
    "CellParameters",
    "Convolution",
    "Deconvolution",
    "Dense",
    "HasLayout",
    "L2Normalization",
    "LayerData",
    "LayerNorm",
    "LocalResponse",
    "Patches",
    "Pooling",
    "Resampling",
    "Rnn",
    "SampleNorm",
    "UpSampling",
    "Window",
]


class LayerData(NamedTuple):
    """What the shape of a layer's weight tells about its data, whose channels come first.

    Attributes:
        features: number of channels or features.
        spatial_axes: number of axes of the image; 0 if the data are vectors of features.
    """

    features: int
    spatial_axes: int = 0


# -- layers ---------------------------------------------------------------------------------------


class Window(Protocol):
    """A window that slides over an image; each field has one entry per spatial axis."""

    @property
    def kernel(self) -> Shape:
        """Number of its elements."""

    @property
    def stride(self) -> Shape:
        """Distance from one position to the next."""

    @property
    def dilate(self) -> Shape:
        """Distance between its elements; 1 for neighbours."""

    @property
    def pad(self) -> Shape:
        """Number of zeros on either side of the image."""

    @property
    def spans(self) -> Shape:
        """Number of the image's elements from its first to its last."""


class Patches(Protocol):
    """``im2col`` or ``col2im``: every window of an image is a column."""

    @property
    def window(self) -> Window:
        """Size, stride, dilation and padding."""


class HasLayout(Protocol):
    """An operator on images."""

    @property
    def layout(self) -> str | None:
        """Order of the axes, as ``"NCHW"``; None for channels first."""


class Convolution(HasLayout, Protocol):
    """``Convolution``."""

    @property
    def kernel(self) -> Shape:
        """Size of the window."""

    @property
    def no_bias(self) -> bool:
        """Whether there is no bias."""

    @property
    def num_filter(self) -> int:
        """Number of output channels."""

    @property
    def num_group(self) -> int:
        """Number of groups."""

    @property
    def window(self) -> Window:
        """Size, stride, dilation and padding."""


class Deconvolution(HasLayout, Protocol):
    """``Deconvolution``."""

    @property
    def no_bias(self) -> bool:
        """Whether there is no bias."""

    @property
    def num_filter(self) -> int:
        """Number of output channels."""

    @property
    def num_group(self) -> int:
        """Number of groups."""

    def window_for(self, image: Shape) -> Window:
        """Return size, stride, dilation and padding for an image of this size."""


class Dense(Protocol):
    """``FullyConnected``."""

    @property
    def no_bias(self) -> bool:
        """Whether there is no bias."""


class Pooling(HasLayout, Protocol):
    """``Pooling``."""

    @property
    def count_include_pad(self) -> bool | None:
        """False if padding does not count in means."""

    @property
    def global_pool(self) -> bool:
        """Whether the window is the whole image."""

    @property
    def kernel(self) -> Shape:
        """Size of the window."""

    @property
    def pad(self) -> Shape:
        """Padding; empty for none."""

    @property
    def p_value(self) -> int | None:
        """The order of the norm, for ``"lp"``."""

    @property
    def pool_type(self) -> str:
        """``"max"``, ``"avg"`` or another one."""

    @property
    def stride(self) -> Shape:
        """Distance from one window to the next; empty for 1."""


class Resampling(Protocol):
    """An operator whose output is a weighted mean of the image's elements, axis by axis."""

    def weights(self, xp: Any, size: int, given: int, dtype: DType) -> Array:
        """Return the weights (size, given) along one axis."""


class UpSampling(Protocol):
    """``UpSampling``."""

    @property
    def num_args(self) -> int:
        """Number of images."""

    @property
    def scale(self) -> int:
        """Factor of height and width."""

    @property
    def sample_type(self) -> str:
        """``"nearest"`` or another one."""


class CellParameters(Protocol):
    """Parameters of one layer in one direction; the rows of all gates are joined."""

    @property
    def i2h_weight(self) -> Array:
        """Weight of the data, (gates · state, columns)."""

    @property
    def h2h_weight(self) -> Array:
        """Weight of the state, likewise."""

    @property
    def i2h_bias(self) -> Array:
        """Bias of the data, (gates · state,)."""

    @property
    def h2h_bias(self) -> Array:
        """Bias of the state, likewise."""


class Rnn(Protocol):
    """``RNN``."""

    @property
    def directions(self) -> int:
        """1, or 2 for a bidirectional network."""

    @property
    def mode(self) -> str:
        """The cell: ``"lstm"``, ``"gru"``, ``"rnn_relu"``, ``"rnn_tanh"`` or, in plans,
        ``"gru_reset_first"``."""

    @property
    def num_layers(self) -> int:
        """Number of layers."""

    @property
    def p(self) -> float:
        """Probability of dropout between layers."""

    @property
    def clip(self) -> object | None:
        """The range of an LSTM's memory; None if it is not clipped."""

    @property
    def projection_size(self) -> int | None:
        """Size of an LSTM's projected output; None if it is not projected."""

    @property
    def state_outputs(self) -> bool:
        """Whether the last states are outputs."""

    @property
    def state_size(self) -> int:
        """Number of hidden units."""

    @property
    def use_sequence_length(self) -> bool:
        """Whether an input has the length of each sequence."""

    def parameter_size(self, inputs: int) -> int:
        """Return the length of the parameter vector for so many inputs."""

    def split(self, parameters: Array, data: Array) -> Sequence[Sequence[CellParameters]]:
        """Return the parameters by layer and direction; the data tell the number of features."""

    def visible_outputs(self) -> int:
        """Number of outputs before what is kept for the backward pass."""


# -- normalization --------------------------------------------------------------------------------


class BatchNorm(Protocol):
    """``BatchNorm``."""

    @property
    def axis(self) -> int:
        """The axis of the channels."""

    @property
    def eps(self) -> float:
        """Added to the variance."""

    @property
    def fix_gamma(self) -> bool:
        """Whether 1 is used instead of gamma."""

    @property
    def momentum(self) -> float:
        """Decay of the moving averages."""

    @property
    def use_global_stats(self) -> bool:
        """Whether the moving averages are used in training, too."""


class LocalResponse(Protocol):
    """``LRN``."""

    @property
    def alpha(self) -> float:
        """Factor of the sum of squares."""

    @property
    def beta(self) -> float:
        """The exponent."""

    @property
    def knorm(self) -> float:
        """Added to the sum."""

    @property
    def nsize(self) -> int:
        """Number of channels in each sum."""


class SampleNorm(Protocol):
    """``GroupNorm`` and ``InstanceNorm``: each sample is normalized by itself."""

    @property
    def eps(self) -> float:
        """Added to the variance."""

    def view_shape(self, shape: Shape) -> Shape:
        """Return the data's shape as (samples, groups or channels, elements of each), where each
        group or channel is normalized by itself."""


class LayerNorm(Protocol):
    """``LayerNorm``."""

    @property
    def axis(self) -> int:
        """The axis that is normalized."""

    @property
    def eps(self) -> float:
        """Added to the variance."""


class L2Normalization(Protocol):
    """``L2Normalization``."""

    @property
    def eps(self) -> float:
        """Added to the sum of squares."""

    @property
    def mode(self) -> str:
        """What has norm 1 afterwards: each sample (``"instance"``), the channels at each place
        (``"channel"``), or each channel of a sample (``"spatial"``)."""


CONVOLUTION = Kind[Convolution]("convolution")
DECONVOLUTION = Kind[Deconvolution]("deconvolution")
FULLY_CONNECTED = Kind[Dense]("fully connected layer")
IMAGE_TO_COLUMNS = Kind[Patches]("windows as columns")
COLUMNS_TO_IMAGE = Kind[Patches]("sums of windows")
EMBEDDING = Kind[object]("embedding")
POOLING = Kind[Pooling]("pooling")
ADAPTIVE_AVERAGE = Kind[Resampling]("adaptive average pooling")
BILINEAR_RESIZE = Kind[Resampling]("bilinear resize")
UP_SAMPLING = Kind[UpSampling]("upsampling")
RNN = Kind[Rnn]("recurrent layers")
BATCH_NORM = Kind[BatchNorm]("batch norm")
GROUP_NORM = Kind[SampleNorm]("group norm")
INSTANCE_NORM = Kind[SampleNorm]("instance norm")
LAYER_NORM = Kind[LayerNorm]("layer norm")
LOCAL_RESPONSE = Kind[LocalResponse]("local response normalization")
L2_NORMALIZATION = Kind[L2Normalization]("L2 normalization")
