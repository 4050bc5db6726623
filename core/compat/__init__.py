"""Names that scripts written for MXNet use and the engine itself does not need.

These are modules under MXNet's import paths (see ``paths.py``), mix-ins that give parts of a module
and its executors MXNet's private names, without behaviour of their own, and deprecated class
attributes.
"""
