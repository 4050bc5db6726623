"""Tensors in the formats in which clients send and receive them."""
