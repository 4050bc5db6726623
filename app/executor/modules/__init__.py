"""Modules on an executor: binding, parameters, optimizer, files."""
