"""Modules that are trained on a server by the code that trains a local one."""

from __future__ import annotations

from app.remote.bucketing_module import RemoteBucketingModule
from app.remote.module import RemoteModule

__all__ = ["RemoteBucketingModule", "RemoteModule"]
