"""Modules: their records, models, checkpoints, datasets and versions."""
