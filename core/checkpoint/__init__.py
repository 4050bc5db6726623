"""Files of a model: its graph, its parameters and its optimizer's states."""

from __future__ import annotations

from .known_names import register_pickled
from .model_files import (
    BatchEndParam,
    load_checkpoint,
    load_params,
    load_params_by_name,
    load_params_file,
    param_names,
    save_checkpoint,
    write_atomically,
)
from .states import copy_states, read_states, write_states

__all__ = [
    "BatchEndParam",
    "copy_states",
    "load_checkpoint",
    "load_params",
    "load_params_by_name",
    "load_params_file",
    "param_names",
    "read_states",
    "register_pickled",
    "save_checkpoint",
    "write_atomically",
    "write_states",
]
