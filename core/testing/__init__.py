"""Tools for tests of models and operators; scripts see them as ``mx.test_utils``."""
