"""Recurrent networks (``mx.rnn``): cells, their checkpoints, batches of sentences."""

from __future__ import annotations

from . import io, rnn, rnn_cell
from .io import *  # noqa: F403 - all that MXNet has under that path
from .rnn import *  # noqa: F403 - all that MXNet has under that path
from .rnn_cell import *  # noqa: F403 - all that MXNet has under that path

__all__ = ["io", "rnn", "rnn_cell"]
__all__ += io.__all__
__all__ += rnn.__all__
__all__ += rnn_cell.__all__
