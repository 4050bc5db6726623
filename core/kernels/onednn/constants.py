"""oneDNN's enumerations, as far as they are used (``dnnl_types.h`` of version 3)."""

from __future__ import annotations

import enum
from typing import cast

__all__ = [
    "MAJOR_VERSION",
    "MAX_DIMENSIONS",
    "Algorithm",
    "Argument",
    "DataType",
    "Direction",
    "FormatKind",
    "FormatTag",
    "Normalization",
    "Propagation",
    "Query",
    "ScratchpadMode",
    "Status",
]

MAJOR_VERSION = 3
MAX_DIMENSIONS = 12


class Status(enum.IntEnum):
    """Status codes returned by every function."""

    SUCCESS = 0
    OUT_OF_MEMORY = 1
    INVALID_ARGUMENTS = 2
    UNIMPLEMENTED = 3
    LAST_IMPLEMENTATION_REACHED = 4
    RUNTIME_ERROR = 5
    NOT_REQUIRED = 6
    INVALID_GRAPH = 7
    INVALID_GRAPH_OP = 8
    INVALID_SHAPE = 9
    INVALID_DATA_TYPE = 10


class DataType(enum.IntEnum):
    """Element types."""

    UNDEFINED = 0
    FLOAT16 = 1
    BFLOAT16 = 2
    FLOAT32 = 3
    INT32 = 4
    INT8 = 5
    UINT8 = 6


class FormatKind(enum.IntEnum):
    """Kinds of layouts."""

    UNDEFINED = 0
    ANY = 1
    BLOCKED = 2


class FormatTag(enum.IntEnum):
    """Layouts by name."""

    ANY = 1
    BLOCKS_OF_16_CHANNELS = 78


class Propagation(enum.IntEnum):
    """Purpose of a primitive."""

    FORWARD_TRAINING = 64
    FORWARD_INFERENCE = 96
    BACKWARD = 128
    BACKWARD_DATA = 160


class Algorithm(enum.IntEnum):
    """Algorithm of a primitive."""

    CONVOLUTION_DIRECT = 0x1
    ELTWISE_RELU = 0x20
    ELTWISE_TANH = 0x21
    ELTWISE_ELU = 0x22
    ELTWISE_SQUARE = 0x23
    ELTWISE_ABSOLUTE = 0x24
    ELTWISE_ROOT = 0x25
    ELTWISE_LINEAR = 0x26
    ELTWISE_SOFT_RELU = 0x27
    ELTWISE_HARD_SIGMOID = 0x28
    ELTWISE_LOGISTIC = 0x29
    ELTWISE_SWISH = 0x2C
    ELTWISE_CLIP = 0x2E
    ELTWISE_GELU_ERF = 0x31
    ELTWISE_HARD_SWISH = 0x34
    ELTWISE_RELU_FROM_OUTPUT = 0x100
    ELTWISE_TANH_FROM_OUTPUT = 0x101
    ELTWISE_ELU_FROM_OUTPUT = 0x102
    ELTWISE_ROOT_FROM_OUTPUT = 0x103
    ELTWISE_LOGISTIC_FROM_OUTPUT = 0x104
    POOLING_MAX = 0x1FF
    LRN_ACROSS_CHANNELS = 0xAFF
    POOLING_AVERAGE_INCLUDE_PADDING = 0x2FF
    POOLING_AVERAGE_EXCLUDE_PADDING = 0x3FF
    BINARY_ADD = 0x1FFF0
    BINARY_MULTIPLY = 0x1FFF1
    BINARY_MAXIMUM = 0x1FFF2
    BINARY_MINIMUM = 0x1FFF3
    BINARY_DIVIDE = 0x1FFF4
    BINARY_SUBTRACT = 0x1FFF5
    BINARY_GREATER_EQUAL = 0x1FFF6
    BINARY_GREATER = 0x1FFF7
    BINARY_LESS_EQUAL = 0x1FFF8
    BINARY_LESS = 0x1FFF9
    BINARY_EQUAL = 0x1FFFA
    BINARY_NOT_EQUAL = 0x1FFFB
    RESAMPLING_NEAREST = 0x2FFF0
    REDUCTION_MAX = 0x2FFF2
    REDUCTION_MIN = 0x2FFF3
    REDUCTION_SUM = 0x2FFF4
    REDUCTION_PRODUCT = 0x2FFF5
    REDUCTION_MEAN = 0x2FFF6
    SOFTMAX_ACCURATE = 0x30000
    SOFTMAX_LOG = 0x30001


class Direction(enum.IntEnum):
    """Order in which a recurrent layer processes the steps."""

    FORWARDS = 1
    BACKWARDS = 2
    BOTH_CONCATENATED = 3


class Normalization(enum.IntFlag):
    """Flags of normalizations."""

    NONE = 0x0
    USE_GLOBAL_STATISTICS = 0x1
    USE_SCALE = 0x2
    USE_SHIFT = 0x4
    FUSE_RELU = 0x8


class ScratchpadMode(enum.IntEnum):
    """Owner of temporary memory."""

    LIBRARY = 0
    USER = 1


class Argument(enum.IntEnum):
    """Role of a memory object in a primitive."""

    SRC = 1
    SRC_1 = 2
    SRC_2 = 3
    DST = 17
    DST_1 = 18
    DST_2 = 19
    WEIGHTS = 33
    WEIGHTS_1 = 34
    BIAS = 41
    MEAN = 49
    VARIANCE = 50
    SCALE = 51
    SHIFT = 52
    WORKSPACE = 64
    SCRATCHPAD = 80
    DIFF_SRC = 129
    DIFF_SRC_1 = 130
    DIFF_SRC_2 = 131
    DIFF_DST = 145
    DIFF_DST_1 = 146
    DIFF_DST_2 = 147
    DIFF_WEIGHTS = 161
    DIFF_WEIGHTS_1 = 162
    DIFF_BIAS = 169
    DIFF_SCALE = 255
    DIFF_SHIFT = 256
    MULTIPLE_SRC = 1024
    """First of several sources; the others have consecutive numbers."""
    SCALES = 4096
    """Combined with another argument: the scales of that argument."""
    POST_OPERATION = 32768
    """First of several post-operations; the others are multiples of it."""

    @classmethod
    def scales_of(cls, argument: Argument) -> Argument:
        """Return the argument for the scales of another argument."""
        return cast("Argument", cls.SCALES | argument)

    @classmethod
    def of_post_operation(cls, index: int) -> Argument:
        """Return the argument for the second operand of a binary post-operation."""
        return cast("Argument", cls.POST_OPERATION * (index + 1) | cls.SRC_1)


class Query(enum.IntEnum):
    """Properties that can be queried from a descriptor."""

    IMPLEMENTATION = 8
    STRIDES = 14
    EXECUTION_ARGUMENT = 255
    AXES = 256
    DIMENSIONS = 257
    DATA_TYPE = 258
    PADDED_DIMENSIONS = 260
    FORMAT_KIND = 262
    INNER_BLOCK_COUNT = 263
    INNER_BLOCKS = 264
    INNER_AXES = 265
