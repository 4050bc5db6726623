"""Tensors from image files; runs only in decoder processes."""
