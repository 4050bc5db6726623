"""Exporting models to other formats."""
