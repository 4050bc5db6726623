"""What scripts written for MXNet reach for and the engine itself has no use for.

Modules under the names that scripts import them by (``paths.py`` says which), views of a module and
its executors under MXNet's private names (mix-ins of names, with no behaviour of their own), and
class attributes that MXNet has deprecated.
"""
