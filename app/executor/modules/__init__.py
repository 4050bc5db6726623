"""Modules as their executor has them: binding, parameters, optimizer, files."""
