"""Symbols for parameter files of gluon's model zoo, which come without."""

from __future__ import annotations

from app.cli.model_zoo.export import export_network, network_names

__all__ = ["export_network", "network_names"]
