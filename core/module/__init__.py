"""Modules: symbols with parameters, memory and optimizer (``mx.mod``)."""

from __future__ import annotations

from core.module.base_module import BaseModule
from core.module.bucketing_module import BucketingModule
from core.module.detection_module import DetectionModule, DetModule
from core.module.executor_group import DataParallelExecutorGroup
from core.module.lifecycle import Stage, StepState
from core.module.module import Module
from core.module.mutable_module import MutableModule
from core.module.python_module import PythonLossModule, PythonModule
from core.module.sequential_module import SequentialModule

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
