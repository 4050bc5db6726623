"""Modules: symbols with parameters, memory and optimizer (``mx.mod``)."""

from __future__ import annotations

from .base_module import BaseModule
from .bucketing_module import BucketingModule
from .detection_module import DetectionModule, DetModule
from .executor_group import DataParallelExecutorGroup
from .lifecycle import Stage, StepState
from .module import Module
from .mutable_module import MutableModule
from .python_module import PythonLossModule, PythonModule
from .sequential_module import SequentialModule

__all__ = [
    "BaseModule",
    "BucketingModule",
    "DataParallelExecutorGroup",
    "DetModule",
    "DetectionModule",
    "Module",
    "MutableModule",
    "PythonLossModule",
    "PythonModule",
    "SequentialModule",
    "Stage",
    "StepState",
]
