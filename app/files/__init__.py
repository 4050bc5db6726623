"""Checkpoints and datasets on disk: written atomically, and read without trusting them."""
