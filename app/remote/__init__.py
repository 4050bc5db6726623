"""Modules that compute on a server, with the interface of local modules."""

from __future__ import annotations

from app.remote.bucketing_module import RemoteBucketingModule
from app.remote.module import RemoteModule

__all__ = ["RemoteBucketingModule", "RemoteModule"]
