"""Checkpoints and datasets on disk: whole or not at all, read without trust."""
