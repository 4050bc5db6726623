"""Recurrent networks: the layout of fused parameters."""
