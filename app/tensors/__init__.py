"""Tensors in the forms in which clients send and receive them."""
