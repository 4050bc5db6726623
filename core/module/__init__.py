"""Modules: symbols with parameters, memory and optimizer (``mx.mod``)."""

from __future__ import annotations

from core.module.base_module import BaseModule
from core.module.bucketing_module import BucketingModule
from core.module.lifecycle import Stage, StepState
from core.module.module import Module

__all__ = ["BaseModule", "BucketingModule", "Module", "Stage", "StepState"]
