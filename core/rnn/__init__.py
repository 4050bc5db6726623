"""Recurrent networks (``mx.rnn``): cells, their checkpoints, batches of sentences."""

from __future__ import annotations

from core.rnn import io, rnn, rnn_cell
from core.rnn.io import *  # noqa: F403 - all that MXNet has under that path
from core.rnn.rnn import *  # noqa: F403 - all that MXNet has under that path
from core.rnn.rnn_cell import *  # noqa: F403 - all that MXNet has under that path

__all__ = ["io", "rnn", "rnn_cell"]
__all__ += io.__all__
__all__ += rnn.__all__
__all__ += rnn_cell.__all__
